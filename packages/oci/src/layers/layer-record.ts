import type { BytePath } from '../archive/byte-path.ts';

/** The record of an extracted layer beside its files. Paths are relative to the root and have one character per byte. */
export interface LayerContent {
  /** Bytes and inodes on the disk. */
  readonly usedBytes: number;
  readonly inodes: number;
  /** Paths that the layer removes from lower layers. */
  readonly whiteouts: readonly BytePath[];
  /** Directories whose content in lower layers is hidden. */
  readonly opaques: readonly BytePath[];
  /** Directories without an entry in the archive; they have the mode and owner of the lower layers. '' is the root. */
  readonly implied: readonly BytePath[];
  /** Extended attributes in base64, by path and name. */
  readonly xattrs: Readonly<Record<BytePath, Readonly<Record<string, string>>>>;
  /** What could not be extracted on this machine, one sentence each. */
  readonly notes: readonly string[];
}

export interface LayerRecord extends LayerContent {
  readonly chainId: string;
  readonly diffId: string;
  /** Name of the layer's directory. */
  readonly name: string;
  /** Boot during which the layer was extracted: an earlier boot may have ended before the files were on the disk, unless the layer is marked as synchronized. */
  readonly bootId: string;
}

/** Limits of one layer. */
export interface LayerLimits {
  readonly maxEntries: number;
  /** Directories without an entry, which the paths of entries imply: each may cost an inode for two bytes. */
  readonly maxImplied: number;
  readonly maxBytes: number;
  /** A layer may be this many times larger than its compressed size, once it exceeds `ratioFromBytes`. */
  readonly maxRatio: number;
  readonly ratioFromBytes: number;
  /** Memory for paths of directories and whiteouts, and for extended attributes. */
  readonly maxRecordBytes: number;
  /** Components of paths and records that the extraction looks at. */
  readonly maxSteps: number;
}

export const defaultLayerLimits: LayerLimits = {
  maxEntries: 2_000_000,
  maxImplied: 100_000,
  maxBytes: 256 * 1024 ** 3,
  maxRatio: 200,
  ratioFromBytes: 256 * 1024 ** 2,
  maxRecordBytes: 256 * 1024 ** 2,
  maxSteps: 20_000_000,
};
