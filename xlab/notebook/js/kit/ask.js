let asked = 0;

/** Ask the kernel; without one, or when it refuses, the promise fails with words to show. */
export function asker(model, bin) {
  if (!model?.send) return null;
  const waiting = new Map();
  const hear = (message) => {
    const found = waiting.get(message?.id);
    if (!found) return;
    waiting.delete(message.id);
    if (message.error) found[1](new Error(message.error));
    else found[0](message.answer);
  };
  model.on("msg:custom", hear);
  bin.push(() => model.off("msg:custom", hear));
  return (ask, values) => new Promise((resolve, reject) => {
    asked += 1;         // one count for all who ask, since all hear every answer
    const number = asked;
    waiting.set(number, [resolve, reject]);
    model.send({ id: number, ask, arguments: values });
  });
}
