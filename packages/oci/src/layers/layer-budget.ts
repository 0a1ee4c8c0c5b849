import { OciError } from '../oci-error.ts';
import type { LayerLimits } from './layer-record.ts';

/** Bytes of memory that a recorded path needs beside its characters. */
const recordOverhead = 64;

/** Counts what the extraction of one layer costs, and ends it with `TooLarge` at a limit. */
export class LayerBudget {
  readonly #limits: LayerLimits;
  #entries = 0;
  #implied = 0;
  #bytes = 0;
  #memory = 0;
  #steps = 0;

  constructor(limits: LayerLimits) {
    this.#limits = limits;
  }

  /** Counts an entry of the archive. */
  entry(): void {
    this.#entries += 1;
    const { maxEntries } = this.#limits;
    if (this.#entries > maxEntries) throw tooLarge(`has more than ${maxEntries} entries`);
  }

  /** Counts a directory that is created for the path of an entry. */
  implied(): void {
    this.#implied += 1;
    const { maxImplied } = this.#limits;
    if (this.#implied > maxImplied) throw tooLarge(`has more than ${maxImplied} directories without an entry`);
  }

  /** Counts the size of a file, holes included: a copy of the file may need it on the disk. */
  file(bytes: number): void {
    this.#bytes += bytes;
    const { maxBytes } = this.#limits;
    if (this.#bytes > maxBytes) throw tooLarge(`has files of more than ${maxBytes} bytes, holes included`);
  }

  /** Counts a path, or an extended attribute of a path, that is kept in memory and in the record of the layer. */
  record(...lengths: readonly number[]): void {
    this.#memory += lengths.reduce((sum, length) => sum + length, recordOverhead);
    const { maxRecordBytes } = this.#limits;
    if (this.#memory > maxRecordBytes)
      throw tooLarge(`has directories, whiteouts and extended attributes of more than ${maxRecordBytes} bytes`);
  }

  /** Counts components of paths that are looked up, and records that are searched for. */
  work(steps: number): void {
    this.#steps += steps;
    const { maxSteps } = this.#limits;
    if (this.#steps > maxSteps)
      throw tooLarge(`needs more than ${maxSteps} steps, because of deep paths, links, or directories that are replaced`);
  }
}

const tooLarge = (reason: string): OciError => new OciError('TooLarge', `the layer ${reason}`);
