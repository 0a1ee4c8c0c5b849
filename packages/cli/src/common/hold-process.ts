import { exitCodes } from './command-error.ts';

/** The exit code of Node.js if the event loop is empty while the main module awaits. */
const unsettledAwait = 13;

/** Keeps the process alive, and reports an exit in the meantime as a failure, until the returned function is called. */
export function holdProcess(): () => void {
  const alive = setInterval(() => {}, 1 << 30);
  const onExit = (code: number) => {
    if (code !== exitCodes.done && code !== unsettledAwait) return; // the command itself ended the process
    process.stderr.write('the process ended before the command was finished\n');
    process.exitCode = exitCodes.failed;
  };
  process.on('exit', onExit);
  return () => {
    clearInterval(alive);
    process.off('exit', onExit);
  };
}
