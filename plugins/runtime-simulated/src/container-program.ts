import type { ContainerBehavior } from './pod-behavior.ts';

/**
 * The behavior of a simulated container, determined by its command and arguments. Any command except these runs until it is stopped and
 * then exits 0 at once:
 *
 * - `sleep SECONDS` exits 0 after that time, and 143 if it is stopped earlier; `exit CODE`, `true`, `false` and `echo ...` exit at once
 * - `stubborn` ignores the stop signal: it is killed after the grace period
 * - `/no/such/...` is a program that does not exist
 */
export interface Program {
  readonly exitAfter: number | undefined;
  readonly exitCode: number;
  readonly ignoresStop: boolean;
  /** The exit code when it is stopped. */
  readonly stopCode: number;
  readonly missing: boolean;
}

const server: Program = { exitAfter: undefined, exitCode: 0, ignoresStop: false, stopCode: 0, missing: false };
const exiting = (exitAfter: number, exitCode: number): Program => ({
  exitAfter,
  exitCode,
  ignoresStop: false,
  stopCode: exitAfter > 0 ? 143 : 0,
  missing: false,
});
const seconds = (word: string | undefined) => (word !== undefined && /^\d+(\.\d+)?$/.test(word) ? Number(word) * 1000 : undefined);
const code = (word: string | undefined) => (word !== undefined && /^\d{1,3}$/.test(word) ? Number(word) & 255 : 0);

/** Returns the program of a container. `behavior` takes precedence over the command. */
export function programOf(argv: readonly string[], behavior: ContainerBehavior, attempt: number): Program {
  if (behavior.exitAfter !== undefined && attempt < behavior.exits) return exiting(behavior.exitAfter, behavior.exitCode);
  const [word = '', first] = argv;
  switch (word) {
    case 'sleep': {
      const after = seconds(first);
      return after === undefined ? server : exiting(after, 0);
    }
    case 'exit':
      return exiting(0, code(first));
    case 'true':
    case 'echo':
      return exiting(0, 0);
    case 'false':
      return exiting(0, 1);
    case 'stubborn':
      return { ...server, ignoresStop: true };
    default:
      return /\/no\/such\//.test(word) ? { ...server, missing: true } : server;
  }
}
