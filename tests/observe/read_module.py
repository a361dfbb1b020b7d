"""A second reading of a compiled module's text, which shares no code with the package: collectives, how often they run, what they send.

It knows what the compiler for CPUs writes, and raises for anything else.
"""

import dataclasses
import itertools
import re

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)
WIDTH = {"pred": 1, "s4": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8,
         "f64": 8, "c64": 8, "c128": 16}  # fmt: skip


@dataclasses.dataclass
class Found:
    name: str
    kind: str
    bytes_in: int
    bytes_out: int
    groups: frozenset
    pairs: frozenset
    times: int | None

    @property
    def trivial(self):
        return all(len(g) < 2 for g in self.groups) and all(a == b for a, b in self.pairs)

    def sent(self):
        """Bytes of all devices in one run, of an algorithm that sends no byte twice without need."""
        total = sum(self.bytes_in for a, b in self.pairs if a != b)
        for group in self.groups:
            n, s = len(group), self.bytes_in
            total += {
                "all-reduce": 2 * (n - 1) * s,
                "all-gather": n * (n - 1) * s,
                "reduce-scatter": (n - 1) * s,
                "all-to-all": (n - 1) * s,
                "ragged-all-to-all": (n - 1) * s,
                "collective-broadcast": (n - 1) * s,
                "collective-permute": 0,
            }[self.kind]
        return total


def sizeof(types):
    total = 0
    for dtype, dims in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", re.sub(r"/\*.*?\*/", "", types)):
        count = 1
        for d in filter(None, dims.split(",")):
            count *= int(d)
        total += count * WIDTH[dtype]
    return total


def device_groups(line, devices):
    """Sets of positions, from `{{0,1},{2,3}}`, `[2,4]<=[4,2]T(1,0)` or `mesh['a'=2,'b'=4] {'b'}`."""
    at = line.find("replica_groups=")
    if at < 0:
        return frozenset()
    rest = line[at + len("replica_groups=") :]
    if rest.startswith("{"):
        listed = [
            tuple(map(int, part.split(",")))
            for part in re.findall(
                r"\{(\d[\d,]*)\}", rest[: rest.index("}}") + 1] if rest[1] == "{" else ""
            )
        ]
        return frozenset(map(frozenset, listed or [range(devices)]))
    if rest.startswith("["):
        shape, dims, order = re.match(
            r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", rest
        ).groups()
        dims = list(map(int, dims.split(",")))
        order = list(map(int, order.split(","))) if order else list(range(len(dims)))
        count, each = map(int, shape.split(","))
        flat = []
        for index in itertools.product(*(range(dims[k]) for k in order)):
            place = dict(zip(order, index))
            number = 0
            for k, n in enumerate(dims):
                number = number * n + place[k]
            flat.append(number)
        return frozenset(frozenset(flat[i * each : (i + 1) * each]) for i in range(count))
    mesh, used = re.match(r"mesh\[([^\]]*)\] \{([^}]*)\}", rest).groups()
    axes = [(name, int(n)) for name, n in re.findall(r"'(\w+)'=(\d+)", mesh)]
    chosen = re.findall(r"'(\w+)'", used)
    groups = {}
    for number, index in enumerate(itertools.product(*(range(n) for _, n in axes))):
        key = tuple(i for (name, _), i in zip(axes, index) if name not in chosen)
        groups.setdefault(key, set()).add(number)
    return frozenset(map(frozenset, groups.values()))


def read(text):
    """Every collective of a module that sends something, by instruction name."""
    devices = 1
    for key in ("num_partitions", "replica_count"):
        if found := re.search(rf"{key}=(\d+)", text.split("\n")[0]):
            devices = max(devices, int(found[1]))
    bodies, entry, inside = {}, None, None
    for line in text.split("\n"):
        if inside is None:
            if line.endswith("{") and "->" in line and not line.startswith(" "):
                inside = re.search(r"%?([\w.\-]+) \(", line)[1]
                bodies[inside] = []
                entry = inside if line.startswith("ENTRY") else entry
        elif line.startswith("}"):
            inside = None
        else:
            bodies[inside].append(line)
    found = {}

    def walk(name, times):
        types = {}
        for line in bodies[name]:
            match = re.match(
                r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)", line
            )
            if match is None:
                continue
            instruction, shape, op, rest = match.groups()
            types[instruction] = shape
            assert not (op.endswith("-start") and op.removesuffix("-start") in KINDS), (
                f"{op} is not known to this reader"
            )
            if op in KINDS:
                operands = re.findall(r"%([\w.\-]+)", rest[: rest.index(")")])
                pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
                pairs = (
                    frozenset((int(a), int(b)) for a, b in re.findall(r"\{(\d+),(\d+)", pairs[1]))
                    if pairs
                    else frozenset()
                )
                made = Found(
                    instruction,
                    op,
                    sum(sizeof(types[o]) for o in operands),
                    sizeof(shape),
                    frozenset() if pairs else device_groups(line, devices),
                    pairs,
                    times,
                )
                if not made.trivial:
                    assert instruction not in found
                    found[instruction] = made
            elif op == "while":
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
                inner = times * int(trips[1]) if trips and times is not None else None
                for key in ("body", "condition"):
                    walk(re.search(rf"{key}=%?([\w.\-]+)", line)[1], inner)
            elif op in ("call", "fusion", "async-start"):
                called = re.search(r"(?:to_apply|calls)=%?([\w.\-]+)", line)
                if called:
                    walk(called[1], times)
            elif op == "conditional":
                listed = re.search(r"branch_computations=\{([^}]*)\}", line)
                names = (
                    listed[1].split(",")
                    if listed
                    else re.findall(r"(?:true|false)_computation=(%?[\w.\-]+)", line)
                )
                for branch in names:
                    walk(branch.strip().lstrip("%"), times)

    walk(entry, 1)
    return found
