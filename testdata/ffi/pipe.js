// Keeps the lock for as long as this program lives, by a command under the lock
// that reads from it through a pipe. The command takes its time to end: until
// the next one waits for it. For Bun and Node.
const { spawn } = require("node:child_process");

const command = `
  echo "$PROGRAM $XLOCK_GENERATION"
  cat
  until "$XLOCK" inspect "$XLOCK_PATH" | grep -q waiting:; do :; done`;
const child = spawn(process.env.XLOCK, ["run", "-q", "-w", "60", process.env.LOCK, "--", "sh", "-c", command], {
  stdio: ["pipe", "pipe", "inherit"],
  env: { ...process.env, PROGRAM: process.pid },
});

// With Node the report goes through the watcher, behind the list of the files
// to watch: whoever reads it knows that the watcher has seen that list.
const report = process.send ? (text) => process.send(text) : console.log;
child.stdout.on("data", (data) => report(String(data).trim()));
child.on("exit", (status) => report(`xlock ended with ${status}`));
