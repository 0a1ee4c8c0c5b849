export interface PackageSize {
  readonly name: string;
  readonly files: number;
  /** In KiB. */
  readonly unpacked: number;
}
/** Returns the sizes of packed folders. */
export function sizesOf(folders: readonly string[]): readonly PackageSize[];
/** Returns where docs/package-sizes.md and the packages differ, as lines. */
export function sizeFaults(sizes: readonly PackageSize[], text?: string): readonly string[];
