/** Code of an error that prevents the assembly of a cluster. docs/errors.md explains every code. */
export type WiringCode =
  | 'SlotEmpty'
  | 'SlotTaken'
  | 'NameTaken'
  | 'WrongSlot'
  | 'VersionMismatch'
  | 'DependencyCycle'
  | 'ConfigInvalid'
  | 'PluginNotFound'
  | 'NotAPlugin'
  | 'Unavailable'
  | 'CreateFailed'
  | 'StartFailed'
  | 'StopFailed';

/** A position in a file. Lines and columns count from 1. */
export interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One error in a composition, with its source position and a remedy where they are known. */
export interface Fault {
  readonly code: WiringCode;
  readonly message: string;
  readonly at?: SourcePosition;
  /** The path of the faulty value in the cluster file, for example `spec.storage.config.path`. */
  readonly path?: string;
  readonly remedy?: string;
}

/** Formats a fault for the terminal: position, path, message, code, and the remedy on a line of its own. */
export function describeFault({ code, message, at, path, remedy }: Fault): string {
  const where = at ? `${at.file}:${at.line}:${at.column}: ` : '';
  return `${where}${path ? `${path}: ` : ''}${message} [${code}]${remedy ? `\n    ${remedy}` : ''}`;
}

const brand = Symbol.for('oarlock:WiringError');

/** An error with every fault that was found in a composition. `code` is the code of the first fault. */
export class WiringError extends Error {
  /** Makes `instanceof` work across two copies of this package: the copy of Oarlock and the copy of a plugin. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && brand in value;
  }
  get [brand](): true {
    return true;
  }
  override readonly name = 'WiringError';
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[], options?: ErrorOptions) {
    super(faults.map(describeFault).join('\n'), options);
    this.faults = faults;
  }
  get code(): WiringCode {
    return this.faults[0]?.code ?? 'StartFailed';
  }
}
