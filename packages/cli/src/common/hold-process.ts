import { exitCodes } from './command-error.ts';

/** Keeps the process alive until the returned function is called. If the event loop becomes empty before, reports that as a failure of the command. */
export function holdProcess(): () => void {
  const alive = setInterval(() => {}, 1 << 30);
  const onEmptyLoop = () => {
    process.stderr.write('the process ended before the command was finished\n');
    process.exitCode = exitCodes.failed;
  };
  process.on('beforeExit', onEmptyLoop);
  return () => {
    clearInterval(alive);
    process.off('beforeExit', onEmptyLoop);
  };
}
