import { errorText } from '@oarlock/primitives/error-text';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { StorageProcess, StorageServer } from '@oarlock/spi/storage-server';
import { EtcdConnection } from '../client/etcd-connection.ts';
import { rpcs } from '../rpc/etcd-messages.ts';
import {
  etcdVersion,
  memberArguments,
  memberEnvironment,
  memberUrl,
  type InitialCluster,
  type MemberStart,
  type StartContext,
} from './member-program.ts';
import { MemberCertificates } from './member-certificates.ts';
import { MemberFiles, type MemberState } from './member-state.ts';
import { Membership } from './membership.ts';
import { permanentFailure } from './permanent-failure.ts';
import type { RemoteSnapshots } from './remote-snapshots.ts';
import { restoreSnapshot } from './restore-snapshot.ts';
import { SupervisedProcess } from './supervised-process.ts';
import { waitingReason } from './waiting-reason.ts';

export interface ManagedSettings {
  readonly program: string;
  readonly clientPort: number;
  readonly peerPort: number;
  readonly quotaBytes: number;
  readonly maxRequestBytes: number;
}

export interface ManagedMemberOptions {
  readonly settings: ManagedSettings;
  readonly server: StorageServer;
  readonly directory: string;
  /** Downloads a copy of a snapshot to a file. */
  readonly download: RemoteSnapshots['download'];
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** Interval in milliseconds at which the list of members is read and certificates near their end are renewed. */
const refreshMs = 30_000;
const readyLogMs = 10_000;
const readyPauseMs = 100;
const timeouts = { requestTimeoutMs: 10_000, keepaliveMs: 10_000, dialTimeoutMs: 2_000 };

/** The etcd member of this server: its program, its certificates and its place in the cluster of members. */
export class ManagedMember implements StorageProcess {
  readonly files: MemberFiles;
  readonly certificates: MemberCertificates;
  readonly #options: ManagedMemberOptions;
  readonly #listeners = new Set<(endpoints: readonly string[]) => void>();
  #process: SupervisedProcess | undefined;
  #connection: EtcdConnection | undefined;
  #endpoints: readonly string[] = [];
  #name: string;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: ManagedMemberOptions) {
    this.#options = options;
    this.files = new MemberFiles(options.directory);
    this.certificates = new MemberCertificates(options.server, options.directory);
    this.#name = options.server.name;
  }

  /** The client URLs of the members, that of this server first. */
  get endpoints(): readonly string[] {
    return this.#endpoints;
  }
  get clientUrl(): string {
    return memberUrl(this.#options.server.address, this.#options.settings.clientPort);
  }
  get peerUrl(): string {
    return memberUrl(this.#options.server.address, this.#options.settings.peerPort);
  }
  /** The name of the member: that of the server when the member started for the first time. */
  get name(): string {
    return this.#name;
  }
  get restarts(): number {
    return this.#process?.restarts ?? 0;
  }
  /** Why the program does not run, or undefined. */
  get failure(): string | undefined {
    return this.#process?.failure;
  }
  get command(): readonly string[] {
    return this.#process?.command ?? [];
  }
  get membership(): Membership {
    if (this.#connection === undefined) throw new Error('the etcd member has not started');
    return new Membership({ connection: this.#connection, clock: this.#options.clock });
  }

  /** Registers a listener for changes of `endpoints`. Returns a function that removes it. */
  onEndpoints(listener: (endpoints: readonly string[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Starts the program and resolves when the member serves clients as a voting member: after it has joined the cluster, if it has to, and when a quorum of
   * members runs. @throws Error if the member cannot start
   */
  async start(signal: AbortSignal): Promise<void> {
    const { settings, clock } = this.#options;
    const version = await etcdVersion(settings.program, clock);
    await this.files.create();
    await this.certificates.issue();
    const state = await this.files.read();
    if (state !== undefined && 'name' in state) this.#name = state.name;
    const known = state?.state === 'member' || state?.state === 'joining' ? state.endpoints : [];
    this.#connection = this.#connect([this.clientUrl, ...known.filter((url) => url !== this.clientUrl)]);
    const initial = await this.#prepare(state, { version, signal });
    this.#process = this.#supervised(() => this.#arguments({ version, initial }));
    await this.#process.start();
    // an adopted member that trusts other CAs is restarted later, when all members are healthy
    if (!(await this.certificates.areAcceptedBy(this.command))) await this.#process.restart();
    await this.#untilServing(signal, state?.state === 'restoring' || state?.state === 'resetting');
    if (state?.state === 'joining') {
      this.#options.log.info({}, 'the etcd member has joined as a learner and catches up');
      await this.#withMembers(known, (membership) => membership.promote(this.peerUrl, signal));
    }
    await this.#updateAddress();
    await this.#refresh();
    this.#schedule();
  }

  /** Starts the program again, with its current arguments. Resolves when the member serves. @throws the reason of the signal */
  async restart(signal: AbortSignal): Promise<void> {
    await this.#process?.restart();
    await this.#untilServing(signal, false);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#connection?.close();
    await this.#process?.stop();
  }

  /** Brings the data of the member into the state that it has to start from. Returns how a member without data starts. */
  async #prepare(state: MemberState | undefined, { version, signal }: StartContext): Promise<InitialCluster | undefined> {
    const { server } = this.#options;
    const alone = { members: [`${this.name}=${this.peerUrl}`], state: 'new', token: server.cluster } as const;
    switch (state?.state) {
      case undefined:
        return this.files.hasData ? undefined : alone;
      case 'member':
        if (!this.files.hasData)
          throw new Error(
            `${this.files.data} has no data of the etcd member, which was there before: join again with a new data directory (\`oarlock server join\`), or restore a snapshot (\`oarlock etcd snapshot restore\`)`,
          );
        return undefined;
      case 'joining': {
        if (this.files.hasData) return undefined;
        const own = { name: this.name, peerUrl: this.peerUrl };
        const members = await this.#withMembers(state.endpoints, (membership) => membership.add(own, signal));
        // a member that has not started has no name yet
        const named = members.flatMap(({ name, peerURLs }) => peerURLs.map((url) => `${url === this.peerUrl ? this.name : name}=${url}`));
        return { members: named, state: 'existing', token: server.cluster };
      }
      case 'restoring':
        await this.#restore(state, signal);
        return undefined;
      case 'resetting':
        await this.#reset({ version, signal });
        return undefined;
    }
  }

  async #restore({ snapshot, download }: Extract<MemberState, { readonly state: 'restoring' }>, signal: AbortSignal): Promise<void> {
    const { server, settings, clock, log } = this.#options;
    if (download !== undefined) await this.#options.download(download, snapshot, signal);
    await this.#supervised(() => []).endLeftover();
    const token = `${server.cluster}-${clock.now()}`;
    const place = { dataDir: this.files.data, name: this.name, peerUrl: this.peerUrl, token };
    const bumped = await restoreSnapshot({ snapshot, ...place, program: settings.program, clock, signal });
    await this.files.write({ state: 'member', name: this.name, endpoints: [this.clientUrl] });
    log.info({ snapshot, bumped }, 'restored a snapshot');
  }

  /** Runs the member once as the only one of a new cluster, which etcd writes to its data. */
  async #reset({ version, signal }: StartContext): Promise<void> {
    const once = this.#supervised(() => [...this.#arguments({ version, initial: undefined }), '--force-new-cluster']);
    await this.files.write({ state: 'resetting', name: this.name, begun: true });
    await once.start();
    this.#process = once;
    try {
      await this.#untilServing(signal, true);
    } finally {
      await once.stop();
    }
  }

  #supervised(args: () => readonly string[]): SupervisedProcess {
    const { settings, clock, log, random } = this.#options;
    return new SupervisedProcess({
      program: settings.program,
      arguments: args,
      identity: `--data-dir=${this.files.data}`,
      isRelevant: (argument) => !/^--(?:initial-cluster|(?:peer-)?trusted-ca-file=)/.test(argument),
      env: memberEnvironment,
      logFile: this.files.log,
      ...{ clock, log, random },
    });
  }

  #arguments({ version, initial }: MemberStart): readonly string[] {
    const { quotaBytes, maxRequestBytes } = this.#options.settings;
    const { name, clientUrl, peerUrl } = this;
    return memberArguments(
      { name, dataDir: this.files.data, clientUrl, peerUrl, quotaBytes, maxRequestBytes, tls: this.certificates.member },
      version,
      initial,
    );
  }

  /** Waits until the member serves clients, which it does when it knows a leader. @throws the reason of the signal */
  async #untilServing(signal: AbortSignal, isOnlyMember: boolean): Promise<void> {
    const { clock, log } = this.#options;
    // the member does not listen yet: this method reports a long wait itself
    const own = this.#connect([this.clientUrl], { requestTimeoutMs: 1_000, log: silentLogger });
    let loggedAt = clock.monotonic();
    try {
      for (;;) {
        signal.throwIfAborted();
        try {
          await own.call(rpcs.status, {}, { repeated: false });
          return;
        } catch (error) {
          // the member may run again at the moment, until it fails once more
          const permanent = permanentFailure(this.#process?.lastEnd);
          if (permanent !== undefined) throw new Error(permanent.message(this.#options.server.address), { cause: error });
          if (clock.monotonic() - loggedAt > readyLogMs) {
            loggedAt = clock.monotonic();
            const logs = { logFile: this.files.log, recentLog: (await this.#process?.recentLog()) ?? '' };
            const cause = waitingReason({ failure: this.failure, isOnlyMember, ...logs });
            log.warn({ reason: this.failure ?? errorText(error) }, `the etcd member does not serve yet: ${cause}`);
          }
          await clock.sleep(readyPauseMs, signal);
        }
      }
    } finally {
      own.close();
    }
  }

  /** Calls `work` with a connection to other members: a learner does not serve such calls. */
  async #withMembers<T>(endpoints: readonly string[], work: (membership: Membership) => Promise<T>): Promise<T> {
    const connection = this.#connect(endpoints);
    try {
      return await work(new Membership({ connection, clock: this.#options.clock }));
    } finally {
      connection.close();
    }
  }

  /** Changes the peer URL of the member if the address of the server has changed. */
  async #updateAddress(): Promise<void> {
    const own = (await this.membership.list()).find(({ name }) => name === this.name);
    if (own !== undefined && !own.peerURLs.includes(this.peerUrl)) await this.membership.update(own, this.peerUrl);
  }

  #schedule(): void {
    if (this.#stopped) return;
    const { clock, log } = this.#options;
    this.#timer = clock.after(refreshMs, () => {
      void this.certificates
        .issue()
        .catch((error: unknown) => log.error({ error: errorText(error) }, 'the certificates of the etcd member could not be renewed'))
        .then(() => this.#refresh())
        .catch((error: unknown) => log.warn({ error: errorText(error) }, 'the list of etcd members could not be read'))
        .finally(() => this.#schedule());
    });
  }

  /** Reads the list of members, and stores it for the next start. */
  async #refresh(): Promise<void> {
    const members = await this.membership.list();
    const others = members
      .filter(({ isLearner, peerURLs }) => !isLearner && !peerURLs.includes(this.peerUrl))
      .flatMap(({ clientURLs }) => clientURLs);
    const endpoints = [this.clientUrl, ...others.sort()];
    if (endpoints.join() === this.#endpoints.join()) return;
    this.#endpoints = endpoints;
    await this.files.write({ state: 'member', name: this.#name, endpoints });
    this.#connection?.useEndpoints(endpoints);
    for (const listener of this.#listeners) listener(endpoints);
  }

  #connect(endpoints: readonly string[], options: { readonly requestTimeoutMs?: number; readonly log?: Logger } = {}): EtcdConnection {
    const { clock, log, random } = this.#options;
    return new EtcdConnection({ endpoints, ...this.certificates.client, ...timeouts, clock, log, random, ...options });
  }
}
