import type { AddressInfo } from 'node:net';
import type { ClusterFacts } from '@oarlock/spi/cluster';
import type { StorageDriver } from '@oarlock/spi/storage';
import type { ClusterFile } from '../cluster-file/cluster-file.ts';
import type { CallMessage } from './process-calls.ts';
import type { PathDescription } from './remote-paths.ts';

/** What a worker needs to run its API server. */
export interface WorkerData {
  readonly name: string;
  readonly count: number;
  readonly file: Omit<ClusterFile, 'locate'>;
  readonly dataDir: string;
  readonly nodeName: string;
  readonly facts: ClusterFacts;
  /** The address on which the first process listens. */
  readonly address: AddressInfo;
  /** The resolved configs of the plugins of the first process, by `configKey`. */
  readonly configs: ReadonlyMap<string, unknown>;
  readonly storage: { readonly traits: StorageDriver['traits']; readonly skips: boolean };
  readonly paths: readonly PathDescription[];
  /** True if requests wait until the audit sinks have recorded their events. */
  readonly auditWaits: boolean;
  /** The roles of the first process besides the API server. */
  readonly roles: readonly string[];
}

/** Identifies a plugin of a plan in both processes. */
export const configKey = ({ path, name }: { readonly path: string; readonly name: string }): string => `${path} ${name}`;

export type ToWorkerMessage =
  | CallMessage
  | { readonly type: 'start'; readonly data: WorkerData }
  /** A connection, which is the handle of the message. */
  | { readonly type: 'connection' }
  | { readonly type: 'stop' };

export type FromWorkerMessage =
  | CallMessage
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly message: string }
  /** A connection of the worker has ended. */
  | { readonly type: 'closed' };

/** The file descriptor of the worker's connection to the storage. */
export const storageDescriptor = 4;
