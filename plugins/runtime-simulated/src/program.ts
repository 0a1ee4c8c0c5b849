import type { Behaviour } from './behaviour.ts';

/**
 * What a simulated container does, from its command and arguments. These words mean something, every other command runs until it is
 * stopped and then exits 0 at once:
 *
 * - `sleep SECONDS` exits 0 after that time, and 143 when it is stopped before; `exit CODE`, `true`, `false` exit at once; `echo ...` too, with 0
 * - `stubborn` ignores the stop signal: it is killed when its grace is over
 * - `/no/such/...`: a program that is not there
 */
export interface Program {
  readonly exitAfter: number | undefined;
  readonly exitCode: number;
  readonly ignoresStop: boolean;
  /** With which it ends when it is stopped. */
  readonly stopCode: number;
  readonly missing: boolean;
}

const serves: Program = { exitAfter: undefined, exitCode: 0, ignoresStop: false, stopCode: 0, missing: false };
const ends = (exitAfter: number, exitCode: number): Program => ({
  exitAfter,
  exitCode,
  ignoresStop: false,
  stopCode: exitAfter > 0 ? 143 : 0,
  missing: false,
});
const seconds = (word: string | undefined) => (word !== undefined && /^\d+(\.\d+)?$/.test(word) ? Number(word) * 1000 : undefined);
const code = (word: string | undefined) => (word !== undefined && /^\d{1,3}$/.test(word) ? Number(word) & 255 : 0);

/** `behaviour` goes before what the command says. */
export function programOf(argv: readonly string[], behaviour: Behaviour, attempt: number): Program {
  if (behaviour.exitAfter !== undefined && attempt < behaviour.exits) return ends(behaviour.exitAfter, behaviour.exitCode);
  const [word = '', first] = argv;
  switch (word) {
    case 'sleep': {
      const after = seconds(first);
      return after === undefined ? serves : ends(after, 0);
    }
    case 'exit':
      return ends(0, code(first));
    case 'true':
    case 'echo':
      return ends(0, 0);
    case 'false':
      return ends(0, 1);
    case 'stubborn':
      return { ...serves, ignoresStop: true };
    default:
      return /\/no\/such\//.test(word) ? { ...serves, missing: true } : serves;
  }
}
