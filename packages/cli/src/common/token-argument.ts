import { basename } from 'node:path';

const option = '--token';

/** Returns command-line arguments without the option `--token` and its value. */
export function withoutToken(args: readonly string[]): readonly string[] {
  const separator = args.indexOf('--');
  return args.filter(
    (arg, index) =>
      (separator !== -1 && index > separator) ||
      (arg !== option && !arg.startsWith(`${option}=`) && (index === 0 || args[index - 1] !== option)),
  );
}

/**
 * Replaces the command line of the process, which every user of the machine can read, by one without the token. A join runs the node or the server in its
 * own process, and so would show the token until it expires; that of a server opens the keys of the cluster.
 */
export function hideToken(): void {
  const args = withoutToken(process.argv);
  if (args.length < process.argv.length) process.title = [basename(process.execPath), ...args.slice(1)].join(' ');
}
