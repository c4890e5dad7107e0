// Takes the lock, reports, and never releases.
import { open } from "./lock.js";

console.log(process.pid, open(process.env.LIBRARY).take());
setInterval(() => {}, 1 << 30);
