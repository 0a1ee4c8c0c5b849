import type { Tools } from '../host/host-tools.ts';
import { SupervisorError } from '../protocol/supervisor-protocol.ts';

/** How a process is run: one program with arguments and environment. Each wrapper execs the next program, except those that `depth` counts. */
export interface Launch {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly directory: string;
  /** The user and group that spawn switches to. */
  readonly uid?: number;
  readonly gid?: number;
  /** The user that the command finally runs as, by whatever means. It owns the pipes. */
  readonly owner: { readonly uid?: number; readonly gid?: number };
  /** True if the wrapper needs descriptor 3: it reports a failure before the command there, and closes it when the command starts. */
  readonly reports: boolean;
  /** How many generations the command is below the process that is spawned. */
  readonly depth: number;
  readonly tty: boolean;
}

/** What a wrapper reports when the command starts. Its shell keeps descriptor 3 open, so the end shows nothing. */
export const startedReport = 'started';

export interface TerminalCommand {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Runs the command on a terminal if it needs one. @throws SupervisorError `Unsupported` without the program for terminals */
export function onTerminal(
  { command, environment, tty }: TerminalCommand & { readonly tty: boolean },
  tools: Pick<Tools, 'script' | 'shell'>,
): TerminalCommand {
  if (!tty) return { command, environment };
  if (tools.script === undefined)
    throw new SupervisorError('Unsupported', "terminals are not supported: util-linux's script is not installed");
  const words = Object.fromEntries(command.map((word, index) => [`OARLOCK_WORD_${index}`, word]));
  return {
    command: [tools.script, '-q', '-e', '-f', '-E', 'always', '-c', terminalScript, '/dev/null'],
    environment: { ...environment, ...words, OARLOCK_WORDS: String(command.length), SHELL: tools.shell },
  };
}

/**
 * The script that `script` runs on its terminal. `script` takes a command only as text, so the words of the command are passed in the
 * environment; the only thing that is evaluated as text here is a counter.
 */
const terminalScript =
  'i=0; set --; while [ "$i" -lt "$OARLOCK_WORDS" ]; do eval "set -- \\"\\$@\\" \\"\\$OARLOCK_WORD_$i\\"; unset OARLOCK_WORD_$i"; i=$((i + 1)); done; unset OARLOCK_WORDS i; exec "$@"';
