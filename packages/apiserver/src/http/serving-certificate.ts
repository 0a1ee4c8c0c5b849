import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { CertificateRequest, ClusterFacts, ClusterKeys, KeyPair } from '@oarlock/spi/cluster';

/** The delay after a failed renewal, and the minimum time until the next renewal, in milliseconds. */
const retryMs = 60_000;

/** Returns a certificate request with the host names and IP addresses of the server. */
export function servingCertificateRequest(facts: ClusterFacts, extra: readonly (string | undefined)[]): CertificateRequest {
  const names = new Set([
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    `kubernetes.default.svc.${facts.domain}`,
    'localhost',
    hostname().toLowerCase(),
  ]);
  const addresses = new Set(['127.0.0.1', '::1', facts.kubernetesServiceIP]);
  for (const list of Object.values(networkInterfaces()))
    for (const { address, scopeid } of list ?? []) if (!scopeid) addresses.add(address);
  for (const name of [...extra, hostOf(facts.serverUrl)]) {
    if (name === undefined || name === '' || name === '0.0.0.0' || name === '::') continue;
    (isIP(name) === 0 ? names : addresses).add(name);
  }
  return { commonName: 'kube-apiserver', dnsNames: [...names].sort(), ipAddresses: [...addresses].sort(), usages: ['server'] };
}

const hostOf = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, '');

/** The serving certificate of the server, which is renewed when a fifth of its lifetime is left. */
export class ServingCertificate {
  readonly #keys: ClusterKeys;
  readonly #request: CertificateRequest;
  readonly #clock: Clock;
  #timer: Timer | undefined;

  constructor(keys: ClusterKeys, request: CertificateRequest, clock: Clock) {
    this.#keys = keys;
    this.#request = request;
    this.#clock = clock;
  }

  /** Returns the first certificate and key. Until `stop`, calls `onRenew` with each later pair, and `onFailure` if a renewal fails. */
  async start(onRenew: (pair: KeyPair) => void, onFailure: (error: unknown) => void): Promise<KeyPair> {
    const pair = await this.#keys.issue(this.#request);
    this.#renewAfter(this.#renewalDelayMs(pair), onRenew, onFailure);
    return pair;
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #renewalDelayMs({ certificate }: KeyPair): number {
    const { validFrom, validTo } = new X509Certificate(certificate);
    const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
    return Math.max(retryMs, from + (to - from) * 0.8 - this.#clock.now());
  }

  #renewAfter(ms: number, onRenew: (pair: KeyPair) => void, onFailure: (error: unknown) => void): void {
    this.#timer = this.#clock.after(ms, () => {
      this.#keys
        .issue(this.#request)
        .then((pair) => {
          onRenew(pair);
          this.#renewAfter(this.#renewalDelayMs(pair), onRenew, onFailure);
        })
        .catch((error: unknown) => {
          onFailure(error);
          this.#renewAfter(retryMs, onRenew, onFailure);
        });
    });
  }
}
