/**
 * Lets the process continue when its messages cannot be written, for example because the disk with their file is full: Node ends a process for an `error`
 * event of standard output or standard error without a listener.
 */
export function continueWithoutOutput(): void {
  for (const output of [process.stdout, process.stderr]) output.on('error', () => undefined);
}
