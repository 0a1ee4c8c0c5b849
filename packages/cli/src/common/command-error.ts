import { describeFault, WiringError, type Fault, type WiringCode } from '@oarlock/kernel/errors';
import { fileErrorText } from '@oarlock/primitives/os/file-error';
import { printableLines } from '@oarlock/primitives/printable-text';

/** Exit codes. 0: success; 1: the command failed; 2: invalid usage or config. */
export const exitCodes = { done: 0, failed: 1, usage: 2 } as const;

/** An error that ends the command with this message and exit code. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: number;
  constructor(message: string, exitCode: number = exitCodes.failed, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

const fileFaultCodes: ReadonlySet<WiringCode> = new Set([
  'SlotEmpty',
  'SlotTaken',
  'NameTaken',
  'WrongSlot',
  'VersionMismatch',
  'DependencyCycle',
  'ConfigInvalid',
  'PluginNotFound',
  'NotAPlugin',
]);

/** Remedies for a port that is in use, by the path of the setting. */
const portRemedies: Readonly<Record<string, string>> = {
  'spec.settings.apiserver':
    'another process listens there: use another port with `--port N`, or stop the other cluster with `oarlock down --data-dir DIR`',
  'spec.settings.kubelet':
    'another kubelet of this machine listens there: set `settings: { kubelet: { port: 0 } }` in the cluster.yaml to use any free port',
};

const diskRemedy = 'the disk is full: free some space, or name a data directory on another disk with `--data-dir DIR`';

function withRemedy(fault: Fault): Fault {
  const portRemedy = fault.message.includes('EADDRINUSE') ? portRemedies[fault.path ?? ''] : undefined;
  const remedy = fault.message.includes('ENOSPC') ? diskRemedy : portRemedy;
  return remedy === undefined ? fault : { ...fault, remedy };
}

interface ErrorDescription {
  readonly message: string;
  readonly exitCode: number;
}

/** Returns the message and exit code for an error of a command. The message has no control characters: it may quote an answer of a server. */
export function describeError(error: unknown): ErrorDescription {
  const { message, exitCode } = descriptionOf(error);
  return { message: printableLines(message), exitCode };
}

function descriptionOf(error: unknown): ErrorDescription {
  if (error instanceof CommandError) return { message: error.message, exitCode: error.exitCode };
  if (error instanceof WiringError) {
    const lines = error.faults.map((fault) => describeFault(withRemedy(fault)));
    const head = lines.length === 1 ? '' : `${lines.length} errors:\n`;
    return {
      message: head + lines.join('\n'),
      exitCode: error.faults.every(({ code }) => fileFaultCodes.has(code)) ? exitCodes.usage : exitCodes.failed,
    };
  }
  const isFull = (error as NodeJS.ErrnoException | undefined)?.code === 'ENOSPC';
  return { message: isFull ? `${fileErrorText(error)}; ${diskRemedy}` : fileErrorText(error), exitCode: exitCodes.failed };
}
