import { readFile, writeFile } from 'node:fs/promises';
import { objectKey } from '@oarlock/api/object';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { inSpan, type Cause } from '@oarlock/kernel/tracing';
import { peerPod } from '@oarlock/network-policy/peer-pod';
import { PolicyEngine } from '@oarlock/network-policy/policy-engine';
import { nft } from '@oarlock/nftables/nft';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import type { NetworkCall } from '@oarlock/spi/network';
import type { NetworkPolicies, ProtectedPod } from '@oarlock/spi/policy';
import type { Tracer } from '@opentelemetry/api';
import { PoliciesOfNow } from './policies-of-now.ts';
import { baseRules, Ruleset, table } from './ruleset.ts';

export interface NftablesPoliciesOptions {
  readonly informers: Informers;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  /** A program and its arguments to run nft with, for a network that is not this process's. */
  readonly enter?: readonly string[];
}

const retryMs = 1_000;
const patienceMs = 20_000;
const maxCauses = 32;
const bridgeSwitches = ['/proc/sys/net/bridge/bridge-nf-call-iptables', '/proc/sys/net/bridge/bridge-nf-call-ip6tables'];

/** Policies as nftables sets and chains: a change of a pod is a change of elements, and only a change of a policy changes rules. */
export class NftablesPolicies implements NetworkPolicies {
  readonly #options: NftablesPoliciesOptions;
  readonly #policies: Informer<NetworkPolicy>;
  readonly #pods: Informer<Pod>;
  readonly #namespaces: Informer<Namespace>;
  readonly #off: (() => void)[] = [];
  readonly #stop = new AbortController();
  readonly #engine = new PolicyEngine();
  #now: PoliciesOfNow | undefined;
  #ruleset: Ruleset | undefined;
  #nodeName: string | undefined;
  #causes: Cause[] = [];
  #synced: Promise<unknown> = Promise.resolve();
  #ready = false;
  #due = false;
  #applying: Promise<void> | undefined;
  #timer: Timer | undefined;

  constructor(options: NftablesPoliciesOptions) {
    this.#options = options;
    this.#policies = options.informers.of(networkPolicies);
    this.#pods = options.informers.of(pods);
    this.#namespaces = options.informers.of(namespaces);
  }

  async start(): Promise<void> {
    await passBridges(this.#options.log);
  }

  guard(nodeName: string): void {
    this.#nodeName = nodeName;
    const follow = <T>(see: (object: T) => void, forget: (object: T) => void) => ({
      added: (object: T, cause: Cause | undefined) => this.#change(cause, () => see(object)),
      updated: (object: T, _old: T, cause: Cause | undefined) => this.#change(cause, () => see(object)),
      deleted: (object: T, cause: Cause | undefined) => this.#change(cause, () => forget(object)),
    });
    const { signal } = this.#stop;
    this.#off.push(
      this.#namespaces.on(
        follow<Namespace>(
          ({ metadata = {} }) => this.#engine.setNamespace(metadata.name ?? '', metadata.labels ?? {}),
          ({ metadata = {} }) => this.#engine.setNamespace(metadata.name ?? '', undefined),
        ),
      ),
      this.#policies.on(
        follow<NetworkPolicy>(
          (policy) => this.#engine.setPolicy(objectKey(policy), policy.metadata?.namespace ?? '', policy),
          (policy) => this.#engine.setPolicy(objectKey(policy), policy.metadata?.namespace ?? '', undefined),
        ),
      ),
      this.#pods.on(
        follow<Pod>(
          (pod) => this.#see(pod),
          (pod) => this.#forget(pod),
        ),
      ),
    );
    // last of those that are told: what the cache has, the engine has
    this.#now = new PoliciesOfNow({ ...this.#options, cache: this.#policies });
    this.#synced = Promise.all([this.#namespaces, this.#policies, this.#pods].map((informer) => informer.whenSynced(signal))).then(() => {
      this.#ready = true;
      this.#wake();
    });
    this.#synced.catch((error: unknown) => {
      if (!signal.aborted) this.#options.log.error({ error: String(error) }, 'policies cannot be followed');
    });
  }

  async protect({ namespace, uid, labels, ips }: ProtectedPod, { cause, signal }: NetworkCall = {}): Promise<void> {
    await this.#known(namespace, signal);
    this.#change(cause, () => this.#engine.setLocal(uid, { namespace, labels, ips }));
    // what is under way may have begun before this
    await this.#applying;
    await this.#apply();
  }

  /** No pod begins before the policies that were there before it are known; who waits too long is told why. */
  async #known(namespace: string, asked: AbortSignal | undefined): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([enough.signal, this.#stop.signal, ...(asked ? [asked] : [])]);
    const patience = this.#options.clock.sleep(patienceMs, signal);
    try {
      await Promise.race([
        this.#synced.then(() => this.#now?.reached(namespace, signal)),
        patience.then(() => Promise.reject(new Error(`the cluster's NetworkPolicies are not known after ${patienceMs / 1000} s`))),
      ]);
    } finally {
      enough.abort();
      patience.catch(() => undefined);
    }
  }

  /** Rules stay: what is isolated remains so while nobody is here. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node is stopping'));
    for (const off of this.#off) off();
    this.#now?.close();
    this.#timer?.cancel();
    await this.#applying?.catch(() => undefined);
  }

  /** Takes all rules away. */
  async clear(): Promise<void> {
    await nft(`table inet ${table} {}\ndelete table inet ${table}\n`, this.#options.enter);
    this.#ruleset = undefined;
  }

  #see(pod: Pod): void {
    const { metadata = {}, spec } = pod;
    const peer = peerPod(pod);
    this.#engine.setPod(objectKey(pod), metadata.namespace ?? '', peer);
    if (spec?.nodeName !== this.#nodeName) return;
    // before its status shows an address, `protect` has told it
    if (peer !== undefined) this.#engine.setLocal(metadata.uid ?? '', { namespace: peer.namespace, labels: peer.labels, ips: peer.ips });
    else if ((pod.status?.podIPs?.length ?? 0) > 0) this.#engine.setLocal(metadata.uid ?? '', undefined);
  }

  #forget(pod: Pod): void {
    this.#engine.setPod(objectKey(pod), pod.metadata?.namespace ?? '', undefined);
    this.#engine.setLocal(pod.metadata?.uid ?? '', undefined);
  }

  #change(cause: Cause | undefined, change: () => void): void {
    change();
    if (cause !== undefined && this.#causes.length < maxCauses) this.#causes.push(cause);
    this.#wake();
  }

  #wake(delayMs = 0): void {
    this.#due = true;
    if (!this.#ready || this.#timer !== undefined || this.#stop.signal.aborted) return;
    // changes of the same turn go together
    this.#timer = this.#options.clock.after(delayMs, () => {
      this.#timer = undefined;
      void this.#apply().catch(() => this.#wake(retryMs));
    });
  }

  /** One at a time; who comes meanwhile waits for the next, which has everything. */
  async #apply(): Promise<void> {
    while (this.#applying !== undefined) await this.#applying.catch(() => undefined);
    if (!this.#due) return;
    this.#due = false;
    this.#applying = this.#program().finally(() => {
      this.#applying = undefined;
    });
    await this.#applying;
  }

  /** From what is in the kernel to what is wanted; from nothing where that is not known, or is for addresses of another family. */
  #next(): { readonly ruleset: Ruleset; readonly commands: string } {
    const touched = this.#engine.take();
    const present = this.#ruleset;
    if (present?.serves(touched.addresses) === true) return { ruleset: present, commands: present.step(this.#engine, touched) };
    this.#engine.touchAll();
    const all = this.#engine.take();
    const ruleset = new Ruleset(all.addresses);
    return { ruleset, commands: `${baseRules()}${ruleset.step(this.#engine, all)}` };
  }

  async #program(): Promise<void> {
    const { log, tracer, enter } = this.#options;
    const [cause, ...links] = this.#causes;
    this.#causes = [];
    const { ruleset, commands } = this.#next();
    if (commands === '') return;
    try {
      await inSpan(tracer, 'apply policies', { cause, links, attributes: { 'oarlock.node': this.#nodeName ?? '' } }, () =>
        nft(commands, enter),
      );
      this.#ruleset = ruleset;
    } catch (error) {
      // what is in force is not known any more: next time it is replaced as a whole
      this.#ruleset = undefined;
      this.#due = true;
      log.error({ error: String(error) }, 'policies could not be put in force; all of them are tried again');
      throw error;
    }
  }
}

/** Packets from one pod to the next on the same bridge pass the rules of forwarding only where the kernel is told so. */
async function passBridges(log: Logger): Promise<void> {
  for (const path of bridgeSwitches) {
    try {
      if ((await readFile(path, 'utf8')).trim() !== '1') await writeFile(path, '1');
    } catch (error) {
      log.warn(
        { error: String(error) },
        'policies do not hold between pods on one bridge of this node: load the kernel module br_netfilter',
      );
      return;
    }
  }
}
