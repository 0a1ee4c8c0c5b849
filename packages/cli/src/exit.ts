import { describeFault, WiringError, type Fault, type WiringCode } from '@oarlock/kernel/errors';

/** 0 done, 1 failed, 2 bad usage or config. */
export const exitCodes = { done: 0, failed: 1, usage: 2 } as const;

/** Ends the command with a sentence and an exit code of its own. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly exitCode: number;
  constructor(message: string, exitCode: number = exitCodes.failed, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

const ofTheFile: ReadonlySet<WiringCode> = new Set([
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

/** What to do about a port that is taken, by where it is set. */
const otherPorts: Readonly<Record<string, string>> = {
  'spec.settings.apiserver':
    'another process listens there: `--port N` takes another port, `oarlock down --data-dir DIR` stops another cluster',
  'spec.settings.kubelet':
    'another kubelet of this machine listens there: `settings: { kubelet: { port: 0 } }` in the cluster.yaml takes any port that is free',
};

function withRemedy(fault: Fault): Fault {
  const remedy = fault.message.includes('EADDRINUSE') ? otherPorts[fault.path ?? ''] : undefined;
  return remedy === undefined ? fault : { ...fault, remedy };
}

/** What the user is told of a failure, and the code to exit with. */
export function explain(error: unknown): { readonly message: string; readonly exitCode: number } {
  if (error instanceof CommandError) return { message: error.message, exitCode: error.exitCode };
  if (error instanceof WiringError) {
    const lines = error.faults.map((fault) => describeFault(withRemedy(fault)));
    const head = lines.length === 1 ? '' : `${lines.length} faults:\n`;
    return {
      message: head + lines.join('\n'),
      exitCode: error.faults.every(({ code }) => ofTheFile.has(code)) ? exitCodes.usage : exitCodes.failed,
    };
  }
  return { message: error instanceof Error ? error.message : String(error), exitCode: exitCodes.failed };
}
