import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { CertificateRequest, ClusterFacts, ClusterKeys, KeyPair } from '@oarlock/spi/cluster';

const retryMs = 60_000;

/** The names and addresses that the server can be reached by. */
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

/** The certificate that the server shows, issued anew when a fifth of its life is left. */
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

  /** The first pair; later ones are told to `renewed`, failures to get one to `failed`. Ends with `stop`. */
  async start(renewed: (pair: KeyPair) => void, failed: (error: unknown) => void): Promise<KeyPair> {
    const pair = await this.#keys.issue(this.#request);
    this.#renewIn(this.#lifeOf(pair), renewed, failed);
    return pair;
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #lifeOf({ certificate }: KeyPair): number {
    const { validFrom, validTo } = new X509Certificate(certificate);
    const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
    return Math.max(retryMs, from + (to - from) * 0.8 - this.#clock.now());
  }

  #renewIn(ms: number, renewed: (pair: KeyPair) => void, failed: (error: unknown) => void): void {
    this.#timer = this.#clock.after(ms, () => {
      this.#keys
        .issue(this.#request)
        .then((pair) => {
          renewed(pair);
          this.#renewIn(this.#lifeOf(pair), renewed, failed);
        })
        .catch((error: unknown) => {
          failed(error);
          this.#renewIn(retryMs, renewed, failed);
        });
    });
  }
}
