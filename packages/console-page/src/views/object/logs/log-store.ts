import { errorText, isApiError, type ApiClient } from '../../../api/client.ts';
import { linesOf, waitForRetry } from '../../../api/watch.ts';
import type { Pod } from '../workload-kinds.ts';
import { plainText } from './plain-text.ts';

export interface LogSource {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  /** The ID of the container whose log is read: a restarted container has another ID, and its log is read from the beginning. */
  readonly containerID: string;
  /** True while the container runs: its log goes on, also when the server ends the stream. */
  readonly isRunning: boolean;
}

/** Returns what a source is in lists of sources: the same text for the same container. */
export const sourceKey = ({ pod, container, containerID }: LogSource): string => `${pod}/${container}/${containerID}`;

/**
 * Returns the containers of pods whose logs can be read, of one pod or container if a name is given. A container that has not been created has no log:
 * the server would answer with an error, or with an empty log that ends at once.
 */
export function logSourcesOf(pods: readonly Pod[], podName: string, containerName: string): readonly LogSource[] {
  return pods
    .filter(({ metadata }) => podName === '' || metadata.name === podName)
    .flatMap(({ metadata, status = {} }) =>
      [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? []), ...(status.ephemeralContainerStatuses ?? [])]
        .filter(({ name, containerID = '' }) => containerID !== '' && (containerName === '' || name === containerName))
        .map(({ name, containerID = '', state }) => ({
          namespace: metadata.namespace ?? '',
          pod: metadata.name,
          container: name,
          containerID,
          isRunning: state?.running !== undefined,
        })),
    );
}
export interface LogLine {
  readonly id: number;
  readonly source: string;
  readonly text: string;
  /** RFC 3339 with nanoseconds, as the kubelet recorded it. */
  readonly time: string;
  /** The time in milliseconds since the epoch; that of the line before if the line has none. */
  readonly at: number;
}
export interface LogOptions {
  readonly follow: boolean;
  readonly previous: boolean;
  /** '' for all lines. */
  readonly sinceSeconds: string;
}

/** The lines that are kept; older ones are dropped. */
const maxLines = 10_000;
/** The lines that are requested of each container at first. */
const tailLines = 2_000;
const maxSources = 50;
const retryMs = 2_000;

/** Returns the time and the text of a line with a timestamp. */
export function splitTimestamp(line: string): { readonly time: string; readonly text: string } {
  const space = line.indexOf(' ');
  const time = space < 0 ? line : line.slice(0, space);
  return /^\d{4}-\d\d-\d\dT/.test(time) ? { time, text: space < 0 ? '' : line.slice(space + 1) } : { time: '', text: line };
}

/** Returns a text that sorts as the time does. Timestamps of a kubelet have no trailing zeros, and can have the offset of its zone. */
export function timeKey(time: string): string {
  const [, seconds = '', fraction = '', zone = ''] = /^(.{19})(?:\.(\d{1,9}))?(.*)$/.exec(time) ?? [];
  return `${Date.parse(seconds + zone)}.${fraction.padEnd(9, '0')}`;
}

/** How far a log was read: the time of the last line, and the number of lines with this time. */
interface LogPosition {
  readonly time: string;
  readonly key: string;
  readonly lines: number;
}

/** Returns true if a failed request can succeed later: the server is overloaded, or the container whose log is followed is just being created. */
const isTransient = (code: number, follow: boolean): boolean => code === 429 || code >= 500 || (follow && code === 400);

/**
 * The logs of several containers together, in the order of time. A stream that breaks, or that ends while the container runs, is resumed after the last line,
 * so that no line is lost or repeated.
 */
export class LogStore {
  readonly #client: ApiClient;
  readonly #options: LogOptions;
  readonly #listeners = new Set<() => void>();
  readonly #streams = new Map<string, AbortController>();
  /** The sources that were set last. */
  #wanted: ReadonlyMap<string, LogSource> = new Map();
  readonly #schedule: (work: () => void) => void;
  #isScheduled = false;
  #count = 0;
  #lines: LogLine[] = [];
  dropped = 0;
  /** Messages about streams that ended or failed, by source. */
  readonly notices = new Map<string, string>();

  constructor(client: ApiClient, options: LogOptions, schedule: (work: () => void) => void = queueMicrotask) {
    this.#client = client;
    this.#options = options;
    this.#schedule = schedule;
  }

  get lines(): readonly LogLine[] {
    return this.#lines;
  }

  start(): () => void {
    return () => {
      for (const abort of this.#streams.values()) abort.abort();
      this.#streams.clear();
    };
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Begins to read new sources, and stops to read those that no longer exist. */
  setSources(sources: readonly LogSource[]): void {
    const wanted = new Map(sources.slice(0, maxSources).map((source) => [sourceKey(source), source]));
    this.#wanted = wanted;
    for (const [key, abort] of this.#streams)
      if (!wanted.has(key)) {
        abort.abort();
        this.#streams.delete(key);
      }
    for (const [key, source] of wanted)
      if (!this.#streams.has(key)) {
        const abort = new AbortController();
        this.#streams.set(key, abort);
        void this.#read(source, abort.signal);
      }
  }

  async #read(source: LogSource, signal: AbortSignal): Promise<void> {
    const key = `${source.pod}/${source.container}`;
    this.notices.delete(key);
    const { follow } = this.#options;
    let last: LogPosition | undefined;
    while (!signal.aborted) {
      try {
        const response = await this.#request(source, last, signal);
        if (this.notices.delete(key)) this.#changed();
        const from = last;
        let repeated = 0;
        for await (const line of linesOf(response.body ?? new ReadableStream())) {
          const { time, text } = splitTimestamp(line);
          const at = time === '' ? '' : timeKey(time);
          if (from !== undefined && at !== '') {
            if (at < from.key) continue;
            if (at === from.key && (repeated += 1) <= from.lines) continue;
          }
          if (at !== '') last = { time, key: at, lines: at === last?.key ? last.lines + 1 : 1 };
          this.#add(key, time, text);
        }
        if (!follow || this.#wanted.get(sourceKey(source))?.isRunning !== true) {
          this.#note(key, 'ended');
          return;
        }
        this.#note(key, 'resuming');
      } catch (error) {
        if (signal.aborted) return;
        this.#note(key, errorText(error));
        if (isApiError(error) && !isTransient(error.code, follow)) return;
      }
      await waitForRetry(retryMs, signal).catch(() => undefined); // the loop ends when the signal has aborted
    }
  }

  #request({ namespace, pod, container }: LogSource, last: LogPosition | undefined, signal: AbortSignal): Promise<Response> {
    const { follow, previous, sinceSeconds } = this.#options;
    return this.#client.send(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/log`, {
      accept: '*/*',
      query: {
        container,
        follow,
        previous,
        timestamps: true,
        // the API has times in seconds only: lines of the second that were read already are left out
        ...(last === undefined ? { tailLines, sinceSeconds } : { sinceTime: last.time.replace(/\.\d+/, '') }),
      },
      signal,
    });
  }

  #note(key: string, message: string): void {
    this.notices.set(key, message);
    this.#changed();
  }

  #add(source: string, time: string, text: string): void {
    this.#count += 1;
    const parsed = Date.parse(time);
    const at = Number.isNaN(parsed) ? (this.#lines.at(-1)?.at ?? 0) : parsed;
    this.#lines.splice(this.#positionOf(at), 0, { id: this.#count, source, time, at, text: plainText(text) });
    if (this.#lines.length > maxLines * 1.2) {
      const excess = this.#lines.length - maxLines;
      this.#lines = this.#lines.slice(excess);
      this.dropped += excess;
    }
    this.#changed();
  }

  /** Returns the position of a line after all lines that are not later: streams of several containers are interleaved by time. */
  #positionOf(at: number): number {
    const lines = this.#lines;
    let [low, high] = [0, lines.length];
    // most lines are the latest
    if (high === 0 || (lines.at(-1)?.at ?? 0) <= at) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((lines[middle]?.at ?? 0) <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #changed(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#schedule(() => {
      this.#isScheduled = false;
      for (const listener of this.#listeners) listener();
    });
  }
}
