import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { KubeObject } from '@oarlock/api/object';
import { leases } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Lease } from '@oarlock/api/types/coordination-v1';
import { formatMicroTime, parseTime } from '@oarlock/api/values/time';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { RequestHandler } from '../endpoints/request/response.ts';
import { apiserverIdentity, LoopbackClient, ignoreReasons } from './loopback-client.ts';

export interface IdentityLeaseOptions {
  readonly pipeline: RequestHandler;
  /** The `host:port` of this server, which distinguishes servers on one machine. */
  readonly endpoint: string;
  readonly clock: Clock;
  readonly log: Logger;
}

const namespace = 'kube-system';
const identityLabel = 'apiserver.kubernetes.io/identity';
const component = 'kube-apiserver';
const leaseDurationSeconds = 3600;
const renewIntervalMs = 10_000;
const collectIntervalMs = 3_600_000;

/** Returns the name of the Lease of a server: `apiserver-` and a hash in base32, as upstream. */
export function identityLeaseName(machine: string, endpoint: string): string {
  return `apiserver-${base32(createHash('sha256').update(`${machine} ${endpoint}`).digest().subarray(0, 16))}`;
}

/**
 * Maintains the Lease that shows that this API server runs, and deletes expired Leases of other servers (KEP-1965). Storage version migration and
 * operators read them.
 */
export class IdentityLeaseController {
  readonly #options: IdentityLeaseOptions;
  readonly #client: LoopbackClient;
  readonly #name: string;
  readonly #holder: string;
  readonly #timers = new Map<'renew' | 'collect', Timer>();
  readonly #running = new Set<Promise<void>>();
  #stopped = false;

  constructor(options: IdentityLeaseOptions) {
    this.#options = options;
    this.#client = new LoopbackClient(options.pipeline);
    this.#name = identityLeaseName(hostname(), options.endpoint);
    this.#holder = `${this.#name}_${randomUUID()}`;
  }

  /** Starts to renew the Lease. Resolves after the first attempt, even if the attempt fails. */
  startRenewal(): Promise<void> {
    return this.#repeat('renew', renewIntervalMs, () => this.#renew());
  }

  /** Starts to delete expired Leases. Resolves after the first attempt, even if the attempt fails. */
  startCollection(): Promise<void> {
    return this.#repeat('collect', collectIntervalMs, () => this.#deleteExpired());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers.values()) timer.cancel();
    await Promise.all(this.#running);
  }

  async #repeat(name: 'renew' | 'collect', intervalMs: number, work: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#options;
    if (this.#stopped) return;
    const run = work().catch((error: unknown) => {
      if (!this.#stopped) log.warn({ lease: this.#name, error: String(error) }, `the identity leases could not be ${name}ed`);
    });
    this.#running.add(run);
    await run;
    this.#running.delete(run);
    if (!this.#stopped)
      this.#timers.set(
        name,
        clock.after(intervalMs, () => void this.#repeat(name, intervalMs, work)),
      );
  }

  async #renew(): Promise<void> {
    const now = formatMicroTime(this.#options.clock.now());
    const labels = { [identityLabel]: component, 'kubernetes.io/hostname': hostname() };
    let current: Lease;
    try {
      current = await this.#client.get(leases, { metadata: { namespace, name: this.#name } });
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
      const lease: Lease = {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { namespace, name: this.#name, labels },
        spec: { holderIdentity: this.#holder, leaseDurationSeconds, acquireTime: now, renewTime: now },
      };
      await this.#client.create(leases, lease).catch(ignoreReasons('AlreadyExists'));
      return;
    }
    const { metadata, spec } = current;
    const acquireTime = spec?.holderIdentity === this.#holder ? (spec.acquireTime ?? now) : now;
    const lease: Lease = {
      ...current,
      metadata: { ...metadata, labels: { ...metadata?.labels, ...labels } },
      spec: { ...spec, holderIdentity: this.#holder, leaseDurationSeconds, acquireTime, renewTime: now },
    };
    await this.#client.update(leases, lease).catch(ignoreReasons('Conflict', 'NotFound'));
  }

  async #deleteExpired(): Promise<void> {
    const { pipeline, clock } = this.#options;
    const response = await pipeline.handle({
      verb: 'list',
      resource: leases,
      subresource: '',
      namespace,
      name: '',
      query: { labelSelector: `${identityLabel}=${component}` },
      identity: apiserverIdentity,
    });
    const now = clock.now();
    for (const { object } of response.kind === 'list' ? response.items : [])
      if (isExpired(object, now)) await this.#client.delete(leases, object).catch(ignoreReasons('NotFound', 'Conflict'));
  }
}

/** Returns true if the holder has not renewed the Lease for its duration. A Lease without a holder or a time is expired, as upstream. */
function isExpired({ spec }: Lease & KubeObject, now: number): boolean {
  const renewed = parseTime(spec?.renewTime ?? '');
  return renewed === undefined || spec?.leaseDurationSeconds === undefined || renewed + spec.leaseDurationSeconds * 1000 < now;
}

/** Encodes bytes in base32 (RFC 4648) in lower case without padding. */
function base32(bytes: Uint8Array): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
  let bits = 0;
  let value = 0;
  let text = '';
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += alphabet[(value >>> (bits - 5)) & 31] ?? '';
    value &= (1 << bits) - 1;
  }
  return bits > 0 ? text + (alphabet[(value << (5 - bits)) & 31] ?? '') : text;
}
