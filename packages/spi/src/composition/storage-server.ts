import { slot } from '@oarlock/kernel/slot';
import type { CertificateRequest } from './cluster.ts';

/** A running program that belongs to a storage, such as an etcd member. */
export interface StorageProcess {
  stop(): Promise<void>;
}

/** The files of a certificate. */
export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The CA of a storage's members. It is not the CA of the cluster: a client certificate of the cluster does not give access to the storage. */
export interface StorageAuthority {
  /** The certificate (PEM) of the CA that issues certificates. */
  readonly signing: string;
  /** The file of all trusted CAs: during a rotation, more than one. A server keeps its content up to date. */
  readonly caFile: string;
  /**
   * Writes a certificate and its key to `NAME.crt` and `NAME.key`, and returns their paths. Keeps files whose certificate this CA has issued for the same
   * names and addresses, until a fifth of its lifetime remains.
   */
  issue(name: string, request: CertificateRequest): Promise<CertificateFiles>;
}

/** The server on which a storage plugin runs a member of the storage. */
export interface StorageServer {
  /** Name of the server, unique in the cluster. */
  readonly name: string;
  /** Name of the cluster. */
  readonly cluster: string;
  /** The address at which the other servers reach this server. */
  readonly address: string;
  /**
   * Opens the CA of the members, which all servers of the cluster share, and writes its `caFile` anew if a rotation has changed it. Creates the CA on the
   * first server.
   */
  openAuthority(): Promise<StorageAuthority>;
  /**
   * Returns the program that `start` starts. The program outlives the plugin: a later plugin of the same process, which opens the storage again, gets
   * the same program. It is stopped when the process has stopped all plugins.
   */
  run<T extends StorageProcess>(start: () => Promise<T>): Promise<T>;
}

/** Absent if the process that opens the storage is no server, as in tests of a plugin. */
export const StorageServer = slot.one<StorageServer>('storage-server/v1');

/** A member of a storage that runs on the servers of the cluster. */
export interface StorageMember {
  /** The name of the member's server; '' if the member has not started yet. */
  readonly name: string;
  readonly id: string;
  readonly endpoint: string;
  /** `Unknown` if the member does not respond. */
  readonly role: 'Leader' | 'Follower' | 'Learner' | 'Unknown';
  readonly version: string;
  readonly databaseBytes: number;
  readonly databaseBytesInUse: number;
  /** Alarms that the member has raised, such as `NOSPACE`. */
  readonly alarms: readonly string[];
}

/** A copy of the storage in a file. */
export interface StorageSnapshot {
  readonly name: string;
  /** The server whose disk has the file. */
  readonly server: string;
  readonly path: string;
  readonly bytes: number;
  /** RFC 3339. */
  readonly createdAt: string;
}

export interface SnapshotList {
  readonly snapshots: readonly StorageSnapshot[];
  /** Why the copies could not be listed; absent if they are in the list, or if there is no store of copies. */
  readonly copiesFailure?: string;
}

/** The CAs of the members that one member uses, PEM. */
export interface MemberAuthorities {
  /** The CA that issued the certificates of the member. */
  readonly signing: string;
  /** All CAs that the running program of the member trusts; empty if they are unknown. */
  readonly trusted: string;
}

/** The members of a storage that runs on the servers of the cluster. */
export interface StorageMembers {
  /** Returns the CAs that the member of this server uses. */
  authorities(): Promise<MemberAuthorities>;
  /**
   * Makes the member of this server use the CAs of `StorageServer.openAuthority`. Restarts its program if the program has to trust other CAs: of all members
   * one at a time, and only while all of them respond. Resolves when the member serves with these CAs. @throws the reason of the signal
   */
  useAuthorities(signal: AbortSignal): Promise<void>;
  /** The URLs at which a joining server reaches the members. */
  endpoints(): readonly string[];
  list(): Promise<readonly StorageMember[]>;
  /** Removes the member of a server. Returns false if there is none. @throws StorageError if the remaining members would lose their quorum */
  remove(name: string): Promise<boolean>;
  /** Writes a snapshot to this server's disk. @throws Error if the name is invalid or if the disk is full */
  saveSnapshot(name?: string): Promise<StorageSnapshot>;
  /** Returns the snapshots on this server's disk, the oldest first, and the copies in a store, if one is configured. */
  listSnapshots(): Promise<SnapshotList>;
  /** Returns the free space of the member databases to their disks, one member after the other, the leader last. Returns their names. */
  defragment(): Promise<readonly string[]>;
  /** Ends the alarms about a full space quota, so that the members accept writes again. Returns the names of the members that had the alarm. */
  disarm(): Promise<readonly string[]>;
}
