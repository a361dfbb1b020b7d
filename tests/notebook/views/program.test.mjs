// The pieces of a program's page on their own: node program.test.mjs MODULE-WITH-EXPORTS GRAPH.json
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import "./dom.mjs";

const { jaxprPieces, sugiyamaLayout, makeGraph, paintJaxpr, readProgram, shortHlo, shortParams, colour, swell, asker, dotOf } = await import(pathToFileURL(process.argv[2]));
const kinds = (text, equation = true) => jaxprPieces(text, equation).filter(([kind]) => kind).map(([kind, part]) => `${kind} ${part}`);

// coloured by position: `in`, `if`, `as` are variables where variables stand
assert.deepEqual(kinds("in:f32[8@data] if:i32[] = scan[length=3 x='a]'] as is 1.5:f32[]"),
  ["v in", "t f32[8@data]", "v if", "t i32[]", "o scan", "p [length=3 x='a]']", "v as", "v is", "n 1.5:f32[]"]);
assert.deepEqual(kinds("debug[text=a = b] x"), ["o debug", "p [text=a = b]", "v x"]);
assert.deepEqual(kinds("in  a:f32[8]  x", false), ["k in  ", "v a", "t f32[8]", "c   x"]);
assert.deepEqual(kinds("body c:f32[4] t:f32[4]", false), ["k body", "v c", "t f32[4]", "v t", "t f32[4]"]);
assert.deepEqual(kinds("→ i c", false), ["k →", "v i", "v c"]);
assert.deepEqual(kinds("out in", false), ["k out", "v in"]);
const node = document.createElement("div");
paintJaxpr(node, "in:f32[8] = mul as 0.044714998453855515:f32[]", true, { shown: (n) => ({ in: "h" })[n] || n });
assert.equal(node.textContent, "h:f32[8] = mul as 0.044715");
assert.ok(![...node.walk()].some((n) => n.className === "xl-k"));

const many = document.createElement("div");
paintJaxpr(many, "a:f32[] b:f32[] c:f32[] d:f32[] = scan[length=3] x", true, {});
assert.equal(many.textContent, "a:f32[] b:f32[] +2 = scan[length=3] x");

// words of Python are words in Python only
const python = document.createElement("div");
colour(python, "if x in y:  # note");
assert.equal(python.querySelectorAll(".xl-k").length, 2);
const divided = document.createElement("div");
colour(divided, "n // 4 if n else 2  # half // not");
assert.deepEqual(divided.querySelectorAll(".xl-c").map((n) => n.textContent), ["# half // not"]);
const hlo = document.createElement("div");
colour(hlo, "%if = f32[2]{0} add(%in, %as)", [], "hlo");
assert.equal(hlo.querySelectorAll(".xl-k").length, 0);

// parameters that say nothing wait behind a sign
assert.equal(shortParams("[axes=(1,) out_sharding=None]"), "[axes=(1,) …]");
assert.equal(shortParams("[axes=(1,)]"), "[axes=(1,)]");
assert.equal(shortHlo('  %d = f32[2]{0} dot(%a, %b), lhs={1}, metadata={op_name="jit(f)/{x}" stack_frame_id=3}, backend_config={"a":{"b":[]}}'), "  %d = f32[2]{0} dot(%a, %b), lhs={1}");

// Graphviz gets the names that are on the screen
const dotted = dotOf(readProgram({ name: "f", names: { a: "x", b: "h" }, heat: [], inputs: ["a:f32[2]"], eqs: { id: [7], op: ["sin"], outs: ["b:f32[2] c:f32[]"], ins: ["a"], args: [[-2]], prog: [0], src: [-1] } }, 0));
assert.match(dotted, /label="x:f32\[2\]"/);
assert.match(dotted, /label="sin\\nh:f32\[2\] c:f32\[\]"/);
assert.match(dotted, /i0 -> e7/);

// the layout is that of Python, to the last bit
const { graph, expected, program } = JSON.parse(readFileSync(process.argv[3], "utf8"));
const made = sugiyamaLayout(graph.w, graph.h, graph.from, graph.to);
assert.deepEqual([...made.x], expected.x);
assert.deepEqual([...made.y], expected.y);
assert.deepEqual(made.links, expected.links);
assert.deepEqual(made.lanes.map((lane) => [lane.x, lane.source, lane.top]), expected.lanes);
assert.equal(made.width, expected.width);
// no two boxes of a layer overlap
const rows = new Map();
made.x.forEach((x, i) => rows.set(made.y[i], [...(rows.get(made.y[i]) || []), [x - graph.w[i] / 2, x + graph.w[i] / 2]]));
for (const row of rows.values()) row.sort((a, b) => a[0] - b[0]).forEach(([left], i, all) => assert.ok(i === 0 || left >= all[i - 1][1] - 1e-6));

// what packing squeezed comes back as it was
const { squeezed, plain } = JSON.parse(readFileSync(process.argv[3], "utf8"));
assert.deepEqual(swell(squeezed), plain);

// all parts of a page count their questions together, and each waits as long as it says
{
  const sent = [];
  const hearers = new Set();
  const model = { send: (m) => sent.push(m), on: (_, f) => hearers.add(f), off: (_, f) => hearers.delete(f) };
  const bin = [];
  const alive = setInterval(() => {}, 5);
  const [quick, slow] = [asker(model, bin, 0.01), asker(model, bin, 60)];
  const [lost, found] = [quick("figure", {}), slow("what_if", {})];
  assert.equal(new Set(sent.map((m) => m.id)).size, 2);
  await assert.rejects(lost, /not answered for 0.01 s/);
  for (const hear of hearers) hear({ id: sent[1].id, answer: "made" });
  assert.equal(await found, "made");
  clearInterval(alive);
  for (const end of bin) end();
  assert.equal(hearers.size, 0);
}

// definitions and uses, and a graph whose boxes open and close and leave nothing behind
const read = readProgram(program, 0);
const eqs = program.eqs;
const k = eqs.args.findIndex((list) => list.some((a) => a >= 0));
const maker = eqs.args[k].find((a) => a >= 0);
assert.ok(read.uses(maker).includes(eqs.id[k]));
assert.ok(read.makers(k).includes(eqs.id[maker]));
const bin = [];
const drawn = makeGraph(read, { select() {}, on() {}, keys: [] }, bin);
const closed = drawn.svg().split("<rect").length;
drawn.openAll(true);
assert.ok(drawn.svg().split("<rect").length > closed);
drawn.light([eqs.id[k]], [], null);
drawn.openAll(false);
assert.equal(drawn.svg().split("<rect").length, closed);
for (const run of bin) run();
assert.equal(drawn.el.listenerCount(), 0);

// repeated layers are one box, which opens to a box for each; many inputs and results share one
{
  const { layered } = JSON.parse(readFileSync(process.argv[3], "utf8"));
  const net = readProgram(layered, 0);
  assert.deepEqual(layered.layers, { 0: [[0, 5, 6, "block"]] });
  const within = [];
  const boxes = makeGraph(net, { select() {}, on() {}, keys: [] }, within);
  boxes.openAll(false);
  const words = () => [...boxes.svg().matchAll(/font-weight="600">([^<]*)</g)].map((m) => m[1]);
  assert.deepEqual(words(), ["block ×6", "20 results"]);
  boxes.openAll(true);
  const open = words();
  assert.deepEqual(open.filter((text) => text.startsWith("block")), ["block ×6", ...[1, 2, 3, 4, 5, 6].map((n) => `block ${n}`)]);
  assert.equal(open.filter((text) => text === "tanh").length, 6);
  assert.ok(open.includes("w0"), "what one group alone uses stands in it");
  boxes.light([7], [], null);
  for (const run of within) run();
}
console.log("ok");
