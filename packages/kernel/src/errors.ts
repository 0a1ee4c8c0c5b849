/** Why a cluster could not be assembled. Every code has one sentence in docs/errors.md. */
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

/** Where in a file a fault was written down. Lines and columns count from 1. */
export interface SourcePosition {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One thing wrong with a composition, and what to do about it. */
export interface Fault {
  readonly code: WiringCode;
  readonly message: string;
  readonly at?: SourcePosition;
  /** A path in the file: `spec.storage.config.path`. */
  readonly path?: string;
  readonly remedy?: string;
}

export function describeFault({ code, message, at, path, remedy }: Fault): string {
  const where = at ? `${at.file}:${at.line}:${at.column}: ` : '';
  return `${where}${path ? `${path}: ` : ''}${message} [${code}]${remedy ? `\n    ${remedy}` : ''}`;
}

const brand = Symbol.for('oarlock:WiringError');

/** Carries every fault that was found, not only the first. `code` is the first one's. */
export class WiringError extends Error {
  /** Two copies of this package, a plugin's and ours, agree on what a WiringError is. */
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
