import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import type { Logger } from '@oarlock/primitives/logger';
import type { Revision } from '@oarlock/spi/storage';
import type { Disk, DiskDirectory, DiskFile } from './disk.ts';
import { continuedFrame, jsonFrame } from './frames.ts';

/** The first frame of a segment. */
export interface SegmentHeader {
  readonly format: 1;
  readonly salt: number;
  /** The last revision of the previous segment. */
  readonly after: Revision;
}

/** One file of the log. */
export interface Segment {
  readonly path: string;
  readonly after: Revision;
  readonly salt: number;
  /** Offset of the next write. */
  position: number;
}

/** Size of the steps in which a segment is filled with zeros, so that a commit does not change the file's size. */
const stepBytes = 1024 * 1024;
const firstBytes = 256 * 1024;

export const segmentName = (after: Revision): string => `log-${String(after).padStart(16, '0')}`;
export const isSegment = (name: string): boolean => /^log-\d{16}$/.test(name);
export const preparedName = 'log-next.tmp';

/** The directory and the segments of the log. */
export interface WriteAheadLogOptions {
  readonly directory: DiskDirectory;
  readonly segments: readonly Segment[];
  readonly segmentBytes: number;
  readonly log: Logger;
}

/**
 * Frames in segments, on the disk when `append` resolves. A segment is filled with zeros in advance: overwriting them does not change the
 * file's size, which halves the time of a commit on ext4. The next segment and the directory are open before they are needed, so that a process without
 * free file descriptors can write.
 */
export class WriteAheadLog {
  readonly #disk: Disk;
  readonly #directory: DiskDirectory;
  readonly #segmentBytes: number;
  readonly #log: Logger;
  readonly #segments: Segment[];
  #file: DiskFile | undefined;
  /** True if the disk may contain bytes that were never acknowledged. */
  #unclean = false;
  /** A segment that may exist on the disk and is not used. */
  #stray: string | undefined;
  /** Size of the current segment that is filled with zeros. */
  #capacity = 0;
  #preparing: Promise<void> | undefined;
  #prepared: DiskFile | undefined;
  /** Position in the current segment from which the next one is prepared again, after an attempt failed. */
  #retryAt = 0;
  #closed = false;

  /** `segments`: the existing ones, oldest first, as recovery returned them. */
  constructor(disk: Disk, { directory, segments, segmentBytes, log }: WriteAheadLogOptions) {
    this.#disk = disk;
    this.#directory = directory;
    this.#segments = [...segments];
    this.#segmentBytes = segmentBytes;
    this.#log = log;
  }

  /** Opens the newest segment for writing, or creates the first one. */
  async open(revision: Revision): Promise<void> {
    const newest = this.#segments.at(-1);
    if (newest) {
      this.#file = await this.#disk.open(newest.path, 'append');
      this.#capacity = await this.#file.size();
    } else await this.#begin(revision, await this.#zeros(firstBytes));
  }

  get salt(): number {
    return this.#current.salt;
  }
  get bytes(): number {
    return this.#segments.reduce((sum, { position }) => sum + position, 0);
  }
  get segments(): number {
    return this.#segments.length;
  }

  /** Ensures space for a frame: starts a new segment if the current one is full. `revision`: the last revision of the log. */
  async reserve(bytes: number, revision: Revision): Promise<void> {
    await this.#clean();
    const { position } = this.#current;
    if (position + bytes > this.#capacity / 2 && this.#preparing === undefined && position >= this.#retryAt) this.#prepare();
    if (position + bytes <= this.#capacity) return;
    // the current segment grows while the next one is prepared
    if (this.#prepared === undefined && position + bytes <= this.#segmentBytes) return;
    await this.#preparing;
    // and while it cannot be prepared
    if (this.#prepared !== undefined) await this.#begin(revision, this.#prepared);
  }

  /** Appends a frame and resolves when the frame is on the disk. If the call rejects, no part of the frame is on the disk, unless `clean` is false. */
  async append(frame: Buffer): Promise<void> {
    const segment = this.#current;
    try {
      await this.#open.write(frame, segment.position);
    } catch (error) {
      this.#unclean = true;
      await this.#clean().catch((cleanError: unknown) => {
        this.#log.error({ file: segment.path, error: String(cleanError) }, 'a partial write cannot be undone yet');
      });
      throw error;
    }
    segment.position += frame.length;
  }

  /** True if the disk contains exactly what was acknowledged. */
  get clean(): boolean {
    return !this.#unclean;
  }

  /** Returns the size of the segments that contain nothing after a revision. */
  coveredBy(revision: Revision): number {
    let bytes = 0;
    for (let at = 0; at + 1 < this.#segments.length && (this.#segments[at + 1] as Segment).after <= revision; at += 1)
      bytes += (this.#segments[at] as Segment).position;
    return bytes;
  }

  /** Removes segments that contain nothing after a revision, oldest first, so that the rest is without gaps. */
  async remove(revision: Revision): Promise<void> {
    while (this.#segments.length > 1 && (this.#segments[1] as Segment).after <= revision) {
      await this.#disk.remove((this.#segments[0] as Segment).path);
      this.#segments.shift();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#preparing;
    await this.#prepared?.close();
    await this.#file?.close();
    this.#file = undefined;
  }

  get #current(): Segment {
    return this.#segments.at(-1) as Segment;
  }
  get #open(): DiskFile {
    if (!this.#file) throw new Error('the log is closed');
    return this.#file;
  }

  /** Removes partial writes, so that recovery does not take them for commits. */
  async #clean(): Promise<void> {
    if (this.#stray !== undefined) {
      await this.#disk.remove(this.#stray);
      await this.#directory.sync();
      this.#stray = undefined;
    }
    if (!this.#unclean) return;
    await this.#open.truncate(this.#current.position);
    await this.#open.sync();
    this.#capacity = this.#current.position;
    this.#unclean = false;
  }

  /** Starts a segment: it gets its name when its head is on the disk, and is used when its name is. */
  async #begin(after: Revision, file: DiskFile): Promise<void> {
    const salt = randomInt(2 ** 32 - 1);
    const head = jsonFrame('head', { format: 1, salt, after } satisfies SegmentHeader, 0);
    const path = join(this.#directory.path, segmentName(after));
    this.#prepared = undefined;
    this.#preparing = undefined;
    let capacity: number;
    try {
      await file.write(head, 0);
      this.#stray = path;
      await this.#disk.rename(this.#preparedPath, path);
      await this.#directory.sync();
      capacity = await file.size();
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#stray = undefined;
    const before = this.#file;
    if (before !== undefined) await this.#markContinued(before, this.#current);
    this.#file = file;
    this.#capacity = capacity;
    this.#retryAt = 0;
    this.#segments.push({ path, after, salt, position: head.length });
    await before?.close();
  }

  /**
   * Marks a segment as continued, so that recovery notices if the newest segment is missing. A segment without the mark is valid: the process may end
   * before this write.
   */
  async #markContinued(file: DiskFile, { path, salt, position }: Segment): Promise<void> {
    try {
      await file.write(continuedFrame(salt), position);
    } catch (error) {
      this.#log.warn(
        { file: path, error: String(error) },
        'the end of a log file could not be marked; a missing next file would not be noticed',
      );
    }
  }

  get #preparedPath(): string {
    return join(this.#directory.path, preparedName);
  }

  #prepare(): void {
    this.#preparing = this.#zeros(this.#segmentBytes).then(
      (file) => {
        this.#prepared = file;
      },
      (error: unknown) => {
        this.#preparing = undefined;
        this.#retryAt = this.#current.position + Math.min(stepBytes, this.#segmentBytes);
        this.#log.warn({ error: String(error) }, 'the next segment of the log cannot be prepared; the current one grows');
      },
    );
  }

  /** Creates the next segment's file, which contains zeros that are on the disk. Returns it opened for writing. */
  async #zeros(bytes: number): Promise<DiskFile> {
    const file = await this.#disk.open(this.#preparedPath, 'create');
    try {
      const step = Buffer.alloc(Math.min(stepBytes, bytes));
      for (let at = 0; at < bytes && !this.#closed; at += step.length) {
        await file.write(step, at);
        // synced in small steps, because commits use the same disk
        await file.sync();
      }
      return await this.#disk.open(this.#preparedPath, 'append');
    } finally {
      await file.close();
    }
  }
}
