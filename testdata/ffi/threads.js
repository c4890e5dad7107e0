// Reports that it is ready, then calls the library as told on standard input,
// "WHO take" or "WHO release", and reports what that returned. WHO is the main
// thread, a worker thread, or the main thread with a second copy of the library.
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { open } from "./lock.js";

const library = open(process.env.LIBRARY);

if (isMainThread) {
  const copy = open(process.env.LIBRARY_COPY);
  const worker = new Worker(import.meta.filename);
  const callers = {
    main: (call) => library[call](),
    copy: (call) => copy[call](),
    worker: (call) =>
      new Promise((answer) => {
        worker.once("message", answer);
        worker.postMessage(call);
      }),
  };
  console.log(process.pid, 0);
  for await (const line of console) {
    const [who, call] = line.split(" ");
    console.log(process.pid, await callers[who](call));
  }
} else {
  parentPort.on("message", (call) => parentPort.postMessage(library[call]()));
}
