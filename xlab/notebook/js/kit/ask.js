let asked = 0;

/** Ask the kernel; without one, or when it refuses, or after so many seconds, the promise fails with words to show. */
export function asker(model, bin, patience = 20) {
  if (!model?.send) return null;
  const waiting = new Map();
  const hear = (message) => {
    const found = waiting.get(message?.id);
    if (!found) return;
    waiting.delete(message.id);
    clearTimeout(found[2]);
    if (message.error) found[1](new Error(message.error));
    else found[0](message.answer);
  };
  model.on("msg:custom", hear);
  bin.push(() => {
    model.off("msg:custom", hear);
    for (const [, , timer] of waiting.values()) clearTimeout(timer);
    waiting.clear();
  });
  return (ask, values) => new Promise((resolve, reject) => {
    asked += 1;         // one count for all who ask, since all hear every answer
    const number = asked;
    const timer = setTimeout(() => {
      waiting.delete(number);
      reject(new Error(`the kernel has not answered for ${patience} s. It is busy with a cell: ask again later; or it was restarted: run the cell again.`));
    }, 1000 * patience);
    timer.unref?.();
    waiting.set(number, [resolve, reject, timer]);
    try {
      model.send({ id: number, ask, arguments: values });
    } catch (error) { // what a host says of a kernel that is gone are a few words such as "Cannot send"
      waiting.delete(number);
      clearTimeout(timer);
      reject(new Error(`the kernel that made this output is gone (${error.message}): run the cell again.`));
    }
  });
}
