import { objectKey } from '@oarlock/api/object';
import { isStatus } from '@oarlock/api/status';
import type { Resource } from '@oarlock/api/resource';
import { errorText } from '@oarlock/primitives/error-text';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { inSpan, type SpanContext } from '@oarlock/kernel/tracing';
import { peerPod } from '@oarlock/network-policy/peer-pod';
import { PolicyEngine } from '@oarlock/network-policy/policy-engine';
import { nft } from '@oarlock/nftables/nft';
import type { Client, Informer, Informers } from '@oarlock/spi/client';
import type { NetworkCallOptions } from '@oarlock/spi/network';
import type { Health } from '@oarlock/spi/role';
import type { NetworkPolicies, ProtectedPod } from '@oarlock/spi/policy';
import type { Tracer } from '@opentelemetry/api';
import { passBridges } from './bridge-filtering.ts';
import { deleteFormerFlows } from './former-flows.ts';
import { PolicyCacheSync } from './policy-cache-sync.ts';
import { baseRules, Ruleset, table } from './ruleset.ts';

export interface NftablesPoliciesOptions {
  readonly informers: Informers;
  readonly client: Client;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tracer: Tracer;
  /** The program and arguments that run nft in another network namespace; undefined for this namespace. */
  readonly enter?: readonly string[];
}

const retryMs = 1_000;
const patienceMs = 20_000;
const maxSpanContexts = 32;

/** Enforces NetworkPolicies with nftables sets and chains. A change of a pod changes only set elements; a change of a policy changes rules. */
export class NftablesPolicies implements NetworkPolicies {
  readonly #options: NftablesPoliciesOptions;
  readonly #policies: Informer<NetworkPolicy>;
  readonly #pods: Informer<Pod>;
  readonly #namespaces: Informer<Namespace>;
  readonly #off: (() => void)[] = [];
  readonly #stop = new AbortController();
  readonly #engine = new PolicyEngine();
  #cacheSync: PolicyCacheSync | undefined;
  /** The addresses that `protect` reported, by the pod's uid. The status of a pod can show those of an earlier sandbox. */
  readonly #assigned = new Map<string, readonly string[]>();
  #ruleset: Ruleset | undefined;
  #nodeName: string | undefined;
  #spanContexts: SpanContext[] = [];
  #synced: Promise<unknown> = Promise.resolve();
  #ready = false;
  #conntrackMissing = false;
  /** Why the NetworkPolicies of the cluster are not known; undefined if they are. */
  #problem: string | undefined = 'the NetworkPolicies of the cluster have not been listed yet';
  #due = false;
  #applying: Promise<void> | undefined;
  #timer: Timer | undefined;

  constructor(options: NftablesPoliciesOptions) {
    this.#options = options;
    this.#policies = options.informers.forResource(networkPolicies);
    this.#pods = options.informers.forResource(pods);
    this.#namespaces = options.informers.forResource(namespaces);
  }

  async start(): Promise<void> {
    await passBridges(this.#options.log);
  }

  startForNode(nodeName: string): void {
    this.#nodeName = nodeName;
    const follow = <T>(see: (object: T) => void, forget: (object: T) => void) => ({
      onAdd: (object: T, spanContext: SpanContext | undefined) => this.#change(spanContext, () => see(object)),
      onUpdate: (object: T, _old: T, spanContext: SpanContext | undefined) => this.#change(spanContext, () => see(object)),
      onDelete: (object: T, spanContext: SpanContext | undefined) => this.#change(spanContext, () => forget(object)),
    });
    const { signal } = this.#stop;
    this.#off.push(
      this.#namespaces.addEventHandler(
        follow<Namespace>(
          ({ metadata = {} }) => this.#engine.setNamespace(metadata.name ?? '', metadata.labels ?? {}),
          ({ metadata = {} }) => this.#engine.setNamespace(metadata.name ?? '', undefined),
        ),
      ),
      this.#policies.addEventHandler(
        follow<NetworkPolicy>(
          (policy) => this.#engine.setPolicy(objectKey(policy), policy.metadata?.namespace ?? '', policy),
          (policy) => this.#engine.setPolicy(objectKey(policy), policy.metadata?.namespace ?? '', undefined),
        ),
      ),
      this.#pods.addEventHandler(
        follow<Pod>(
          (pod) => this.#see(pod),
          (pod) => this.#forget(pod),
        ),
      ),
    );
    // the last event handler: once it runs, the engine has what the cache has
    this.#cacheSync = new PolicyCacheSync({ ...this.#options, cache: this.#policies });
    this.#synced = Promise.all([this.#namespaces, this.#policies, this.#pods].map((informer) => informer.whenSynced(signal))).then(() => {
      this.#ready = true;
      this.#problem = undefined;
      this.#wake();
    });
    void this.#probeLists();
    this.#synced.catch((error: unknown) => {
      if (!signal.aborted) this.#options.log.error({ error: String(error) }, 'cannot watch NetworkPolicies');
    });
  }

  checkHealth(): Health {
    return this.#problem === undefined ? { healthy: true } : { healthy: false, reason: this.#problem };
  }

  /**
   * Lists each kind until all lists succeed and the informers have synced, because informers do not report why they do not sync. The problem is the
   * error of the last list.
   */
  async #probeLists(): Promise<void> {
    const { client, clock } = this.#options;
    const { signal } = this.#stop;
    const resources: readonly Resource[] = [networkPolicies, namespaces, pods];
    while (this.#problem !== undefined && !signal.aborted) {
      await clock.sleep(retryMs, signal).catch(() => undefined); // `stop` ends the wait
      let current = '';
      try {
        for (const resource of resources) {
          current = resource.resource;
          if (this.#problem !== undefined && !signal.aborted) await client.list(resource, { limit: 1, signal });
        }
        if (this.#ready) this.#problem = undefined;
      } catch (error) {
        this.#setProblem(`cannot list ${current}: ${errorText(error)}`);
      }
    }
  }

  #setProblem(problem: string): void {
    if (this.#problem === problem || this.#stop.signal.aborted) return;
    this.#options.log.error({ problem }, 'NetworkPolicies cannot be enforced; the node is not ready');
    const isProbed = this.#problem !== undefined;
    this.#problem = problem;
    if (!isProbed) void this.#probeLists();
  }

  async protect({ namespace, uid, labels, ips }: ProtectedPod, { spanContext, signal }: NetworkCallOptions = {}): Promise<void> {
    await this.#known(namespace, signal);
    const known = new Set(this.#engine.localAddresses(uid));
    this.#assigned.set(uid, ips);
    this.#change(spanContext, () => this.#engine.setLocal(uid, { namespace, labels, ips }));
    // a write in progress may have started before this change
    await this.#applying;
    await this.#apply();
    await this.#deleteFormerFlows(ips.filter((ip) => !known.has(ip)));
  }

  async #deleteFormerFlows(ips: readonly string[]): Promise<void> {
    const { clock, log, enter } = this.#options;
    const { ingress, egress } = this.#engine.isolationByAddress;
    const isolated = ips.filter((ip) => ingress.has(ip) || egress.has(ip));
    if (this.#conntrackMissing || (await deleteFormerFlows(clock, isolated, enter))) return;
    this.#conntrackMissing = true;
    log.warn(
      {},
      'conntrack is not installed (Debian package conntrack): established flows of an ended pod reach the next pod with its address',
    );
  }

  /** Waits until all NetworkPolicies that existed before the pod are known. @throws Error if they are not listed within the timeout */
  async #known(namespace: string, callSignal: AbortSignal | undefined): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([enough.signal, this.#stop.signal, ...(callSignal ? [callSignal] : [])]);
    const patience = this.#options.clock.sleep(patienceMs, signal);
    try {
      await Promise.race([
        this.#synced.then(() => this.#cacheSync?.waitUntilCurrent(namespace, signal)),
        patience.then(() => Promise.reject(new Error(this.#problem ?? `NetworkPolicies were not listed within ${patienceMs / 1000} s`))),
      ]);
    } catch (error) {
      if (isStatus(error, 'Forbidden', 'Unauthorized')) this.#setProblem(`cannot list networkpolicies: ${error.message}`);
      throw error;
    } finally {
      enough.abort();
      patience.catch(() => undefined);
    }
  }

  /** Stops to follow changes. The rules stay in the kernel, so that pods remain isolated while no process runs. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error('the node is stopping'));
    for (const off of this.#off) off();
    this.#cacheSync?.close();
    this.#timer?.cancel();
    await this.#applying?.catch(() => undefined);
  }

  /** Removes all rules from the kernel. */
  async clear(): Promise<void> {
    await nft(`table inet ${table} {}\ndelete table inet ${table}\n`, this.#options.enter);
    this.#ruleset = undefined;
  }

  #see(pod: Pod): void {
    const { metadata = {}, spec } = pod;
    const peer = peerPod(pod);
    this.#engine.setPod(objectKey(pod), metadata.namespace ?? '', peer);
    if (spec?.nodeName !== this.#nodeName) return;
    const { uid = '' } = metadata;
    if (peer !== undefined) {
      const { namespace, labels } = peer;
      this.#engine.setLocal(uid, { namespace, labels, ips: this.#assigned.get(uid) ?? peer.ips });
      return;
    }
    // without addresses in the status the pod is about to start; otherwise it has ended
    if ((pod.status?.podIPs?.length ?? 0) > 0) this.#removeLocal(uid);
  }

  #forget(pod: Pod): void {
    this.#engine.setPod(objectKey(pod), pod.metadata?.namespace ?? '', undefined);
    this.#removeLocal(pod.metadata?.uid ?? '');
  }

  #removeLocal(uid: string): void {
    this.#assigned.delete(uid);
    this.#engine.setLocal(uid, undefined);
  }

  #change(spanContext: SpanContext | undefined, change: () => void): void {
    change();
    if (spanContext !== undefined && this.#spanContexts.length < maxSpanContexts) this.#spanContexts.push(spanContext);
    this.#wake();
  }

  #wake(delayMs = 0): void {
    this.#due = true;
    if (!this.#ready || this.#timer !== undefined || this.#stop.signal.aborted) return;
    // changes of the same event loop turn are applied together
    this.#timer = this.#options.clock.after(delayMs, () => {
      this.#timer = undefined;
      void this.#apply().catch(() => undefined); // `#program` has logged the error and scheduled another attempt
    });
  }

  /** Applies pending changes, one transaction at a time. Calls during a transaction wait for the next transaction. */
  async #apply(): Promise<void> {
    while (this.#applying !== undefined) await this.#applying.catch(() => undefined);
    if (!this.#due) return;
    this.#due = false;
    this.#applying = this.#program().finally(() => {
      this.#applying = undefined;
    });
    await this.#applying;
  }

  /**
   * Returns the commands of the next transaction: the difference to the rules in the kernel, or all rules if the rules in the kernel are unknown or
   * cover other address families.
   */
  #next(): { readonly ruleset: Ruleset; readonly commands: string } {
    const touched = this.#engine.takeChanges();
    const present = this.#ruleset;
    if (present?.supports(touched.addresses) === true) return { ruleset: present, commands: present.update(this.#engine, touched) };
    this.#engine.markAllChanged();
    const all = this.#engine.takeChanges();
    const ruleset = new Ruleset(all.addresses);
    return { ruleset, commands: `${baseRules()}${ruleset.update(this.#engine, all)}` };
  }

  async #program(): Promise<void> {
    const { log, tracer, enter } = this.#options;
    const [spanContext, ...links] = this.#spanContexts;
    this.#spanContexts = [];
    const { ruleset, commands } = this.#next();
    if (commands === '') return;
    try {
      await inSpan(tracer, 'apply policies', { spanContext, links, attributes: { 'oarlock.node': this.#nodeName ?? '' } }, () =>
        nft(commands, enter),
      );
      this.#ruleset = ruleset;
    } catch (error) {
      // the rules in the kernel are unknown now: the next transaction replaces all of them
      this.#ruleset = undefined;
      this.#wake(retryMs);
      log.error({ error: String(error) }, 'could not apply NetworkPolicies; all of them are applied again');
      throw error;
    }
  }
}
