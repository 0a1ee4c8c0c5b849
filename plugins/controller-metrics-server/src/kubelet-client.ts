import { Agent, request } from 'node:https';
import type { Node } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { connectionEnds, goErrorText, joinHostPort, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import { rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { RenewedCertificate, type CertificatePair } from '@oarlock/primitives/net/renewed-certificate';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { parseResourceMetrics, parseSummary, type Scrape } from './kubelet-metrics.ts';

const maxBytes = 32 * 1024 * 1024;
const maxSockets = 256;
/** The user of the client certificate; the ClusterRoleBinding `oarlock:metrics-server` grants `get nodes/metrics` and `get nodes/stats`. */
const metricsServerUser = 'system:metrics-server';
const types = ['InternalIP', 'ExternalIP', 'Hostname'];

export interface KubeletClientOptions {
  readonly keys: ClusterKeys;
  readonly clock: Clock;
  readonly log: Logger;
  readonly timeoutMs: number;
}

export interface KubeletAddress {
  readonly host: string;
  readonly port: number;
}

/** Returns the address and port of a node's kubelet from the node status; undefined if the status has none. */
export function kubeletAddress({ status }: Node): KubeletAddress | undefined {
  const port = status?.daemonEndpoints?.kubeletEndpoint?.Port;
  for (const type of types) {
    const found = status?.addresses?.find((address) => address.type === type);
    if (found !== undefined && port) return { host: found.address, port };
  }
  return undefined;
}
export const addressText = ({ host, port }: KubeletAddress): string => `${host} ${port}`;

function agentOf({ certificate, key }: CertificatePair, ca: string): Agent {
  return new Agent({
    ...{ cert: certificate, key, ca },
    minVersion: 'TLSv1.2',
    keepAlive: true,
    maxSockets,
    maxFreeSockets: maxSockets,
  });
}

/** A client that scrapes kubelets as the user {@link metricsServerUser}. Its only right is to read the metrics of nodes. */
export class KubeletClient {
  readonly #keys: ClusterKeys;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #timeoutMs: number;
  #agent: Promise<Agent> | undefined;
  #certificate: RenewedCertificate | undefined;
  /** The addresses of kubelets that do not serve `/metrics/resource`. */
  readonly #old = new Set<string>();

  constructor({ keys, clock, log, timeoutMs }: KubeletClientOptions) {
    this.#keys = keys;
    this.#clock = clock;
    this.#log = log;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Returns the resource metrics of one kubelet from `/metrics/resource`, or from `/stats/summary` if the kubelet answers 404.
   * @throws Error if the request fails or times out, or if the kubelet responds with another status than 200
   */
  async scrape(place: KubeletAddress, signal: AbortSignal): Promise<Scrape> {
    const key = addressText(place);
    if (!this.#old.has(key)) {
      const { code, body } = await this.#get(place, '/metrics/resource', signal);
      if (code === 200) return parseResourceMetrics(body, this.#clock.now());
      if (code !== 404) throw new Error(`/metrics/resource: status ${code}`);
      this.#old.add(key);
    }
    const { code, body } = await this.#get(place, '/stats/summary', signal);
    if (code !== 200) throw new Error(`/stats/summary: status ${code}`);
    return parseSummary(JSON.parse(body) as Parameters<typeof parseSummary>[0], this.#clock.now());
  }

  close(): void {
    this.#certificate?.stop();
    void this.#agent?.then((agent) => agent.destroy());
  }

  /** Issues the client certificate on first use, and renews it; a failure is not cached. */
  #connect(): Promise<Agent> {
    if (this.#agent === undefined) {
      const certificate = new RenewedCertificate({
        issue: () => this.#keys.issue({ commonName: metricsServerUser, usages: ['client'] }),
        onRenew: (pair) => this.#use(pair),
        onFailure: (error) => this.#log.error({ err: error }, 'renewing the client certificate of the metrics server failed'),
        clock: this.#clock,
      });
      this.#certificate = certificate;
      this.#agent = certificate.start().then(
        (pair) => agentOf(pair, this.#keys.caBundle),
        (error: unknown) => {
          this.#agent = undefined;
          throw error;
        },
      );
    }
    return this.#agent;
  }

  /** Uses another certificate from the next scrape. A scrape that is in progress fails, and the next one replaces it. */
  #use(pair: CertificatePair): void {
    void this.#agent?.then((agent) => agent.destroy());
    this.#agent = Promise.resolve(agentOf(pair, this.#keys.caBundle));
  }

  async #get({ host, port }: KubeletAddress, path: string, signal: AbortSignal): Promise<{ readonly code: number; readonly body: string }> {
    const agent = await this.#connect();
    const within = AbortSignal.any([signal, AbortSignal.timeout(this.#timeoutMs)]);
    return new Promise((resolve, reject) => {
      const call = request({ host, port, path, agent, signal: within }, (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > maxBytes) call.destroy(new Error(`${path}: the response is larger than ${maxBytes} bytes`));
          else chunks.push(chunk);
        });
        response.once('end', () => resolve({ code: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }));
        response.once('error', reject);
      });
      const ends = connectionEnds(call);
      rejectUpgrade(call);
      call.once('error', (cause) =>
        reject(new Error(requestErrorText('GET', `https://${joinHostPort(host, port)}${path}`, goErrorText(cause, ends())), { cause })),
      );
      call.end();
    });
  }
}
