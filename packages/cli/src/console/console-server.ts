import { createPrivateKey, X509Certificate } from 'node:crypto';
import { connectionLimits, defaultConnectionConfig } from '@oarlock/apiserver/http/connection-limits';
import type { Exchange, UpgradeRequest } from '@oarlock/apiserver/http/exchange';
import { HttpServer } from '@oarlock/apiserver/http/server';
import { ProxyAddresses } from '@oarlock/apiserver/proxy/proxy-addresses';
import { ReverseProxy } from '@oarlock/apiserver/proxy/reverse-proxy';
import { badRequest, failure, StatusError } from '@oarlock/api/status';
import { selfSigned, signLeaf, spkiOf } from '@oarlock/cluster/pki/certificate-writer';
import { newKey } from '@oarlock/cluster/pki/key-pair';
import { loadPlugin } from '@oarlock/cluster/plugins/plugin-loader';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import { silentLogger } from '@oarlock/primitives/logger';
import { anonymous, type Authenticator, type Credentials, type Identity } from '@oarlock/spi/authn';
import { Cluster, type ClusterFacts, type KeyPair } from '@oarlock/spi/cluster';
import { Paths, type PathHandler, type PathResponse } from '@oarlock/spi/paths';
import { Registry } from 'prom-client';
import type { ApiServerTarget } from './api-server-target.ts';

export interface ConsoleServerOptions {
  readonly target: ApiServerTarget;
  /** The user of the kubeconfig. The page shows its name. */
  readonly user: Identity;
  /** Name and version of the cluster, which the page shows. */
  readonly cluster: Pick<ClusterFacts, 'name' | 'version'>;
  readonly port: number;
  readonly clock: Clock;
}

const address = '127.0.0.1';
const maxSignInBytes = 4096;
const maxStreamsPerConnection = 250;
const responseTimeoutMs = 60_000;
const certificateDays = 30;
/** Sessions begin with a link, so that they have no credentials that could be authenticated again. */
const noCredentials: Authenticator = { authenticate: () => ({ outcome: 'abstained' }) };

/** Serves the page of the console on a loopback address, and forwards the requests of its sessions to the API server of a kubeconfig. */
export class ConsoleServer {
  readonly #options: ConsoleServerOptions;
  readonly #server: HttpServer;
  readonly #proxy: ReverseProxy;
  readonly #stopping = new AbortController();
  readonly #certificate: string;
  #handler: PathHandler | undefined;
  #port = 0;

  private constructor(options: ConsoleServerOptions) {
    this.#options = options;
    const pair = servingPair();
    this.#certificate = pair.certificate;
    this.#server = new HttpServer({
      pair,
      clientAuthorities: { cluster: '', frontProxy: '' },
      maxStreamsPerConnection,
      limits: connectionLimits(defaultConnectionConfig, responseTimeoutMs),
      clock: options.clock,
      log: silentLogger,
      registry: new Registry(),
      handle: (exchange, upgrade) => this.#handle(exchange, upgrade),
    });
    // the own listener is no destination: a forwarded request would be forwarded again
    this.#proxy = new ReverseProxy(this.#stopping.signal, new ProxyAddresses({ listeners: () => [{ host: address, port: this.#port }] }));
  }

  /** Starts to listen. @throws Error if the port is not available, or if the page is not part of this installation */
  static async start(options: ConsoleServerOptions): Promise<ConsoleServer> {
    const server = new ConsoleServer(options);
    server.#port = (await server.#server.listen(address, options.port)).port;
    server.#handler = await consoleHandler(options, `https://${address}:${server.#port}`);
    return server;
  }

  /** The fingerprint of the certificate as browsers show it, SHA-256. */
  get fingerprint(): string {
    return new X509Certificate(this.#certificate).fingerprint256;
  }

  /** Creates a link that signs in once. */
  async createLink(): Promise<string> {
    const response = await this.#handler?.handle({
      method: 'POST',
      path: '/console/links',
      query: {},
      body: undefined,
      identity: this.#options.user,
    });
    const { url, message } = (response?.body ?? {}) as { readonly url?: string; readonly message?: string };
    if (url === undefined) throw new Error(message ?? 'the console is starting');
    return url;
  }

  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#server.close();
  }

  async #handle(exchange: Exchange, upgrade?: UpgradeRequest): Promise<void> {
    try {
      await this.#respond(exchange, upgrade);
    } catch (error) {
      if (exchange.state !== 'fresh') return exchange.abort();
      const { status } = error instanceof StatusError ? error : failure('InternalError', errorText(error));
      send(exchange, { code: status.code ?? 500, body: status });
    } finally {
      exchange.releaseBody();
    }
  }

  async #respond(exchange: Exchange, upgrade?: UpgradeRequest): Promise<void> {
    const { target, method } = exchange;
    // a name that an attacker's DNS server resolves to this address is not accepted (DNS rebinding)
    const host = exchange.headers.host ?? exchange.headers[':authority'];
    if (host !== `${address}:${this.#port}` && host !== `localhost:${this.#port}`)
      throw failure('Forbidden', `the console is served at https://${address}:${this.#port}/console/ only`);
    const path = target.split('?', 1)[0] ?? '';
    if (!path.startsWith('/') || path.startsWith('//')) throw badRequest('the path does not begin with a slash');
    const handler = this.#handler;
    if (handler === undefined) throw failure('ServiceUnavailable', 'the console is starting');
    if (path === '/' || path === '/console') {
      exchange.setHeader('Location', '/console/');
      exchange.send(302, '');
      return;
    }
    const credentials: Credentials = { headers: exchange.headers, rawHeaders: exchange.rawHeaders, path };
    const result = await handler.authenticator?.authenticate(credentials, noCredentials);
    const user = result?.outcome === 'authenticated' ? result.identity : anonymous;
    if (path.startsWith('/console/')) {
      const body = method === 'POST' ? parseBody(await exchange.readBody(maxSignInBytes)) : undefined;
      send(exchange, await handler.handle({ method, path, query: {}, body, identity: user, credentials }));
      return;
    }
    if (user === anonymous) throw failure('Unauthorized', 'the request does not belong to a session of the console');
    await this.#forward(exchange, upgrade);
  }

  async #forward(exchange: Exchange, upgrade?: UpgradeRequest): Promise<void> {
    const { target } = this.#options;
    const destination = await target.targetOf(exchange.target, exchange.headers);
    // what a pod answers through the API server's proxy is data of the page, never a page of this origin
    exchange.setHeader('Content-Security-Policy', "default-src 'none'; sandbox");
    exchange.setHeader('X-Content-Type-Options', 'nosniff');
    if (upgrade === undefined) await this.#proxy.forward(destination, exchange);
    else await this.#proxy.upgrade(destination, exchange, upgrade);
    if (exchange.statusCode === 401) target.handleUnauthorized();
  }
}

/** Creates the handler of the plugin that also serves the console of a cluster. Sessions begin with a link only: the page needs no other credentials. */
async function consoleHandler({ cluster, clock }: ConsoleServerOptions, url: string): Promise<PathHandler> {
  const loaded = await loadPlugin('console', undefined);
  if ('fault' in loaded) throw new Error(loaded.fault.message);
  const facts: ClusterFacts = {
    ...cluster,
    serverUrl: url,
    domain: 'cluster.local',
    podCIDRs: [],
    serviceCIDRs: [],
    kubernetesServiceIP: '',
    dnsServiceIP: '',
    nodePortRange: { from: 0, to: 0 },
  };
  const host = new PluginHost({ clock, log: silentLogger })
    .provide(Cluster, facts)
    .add({ plugin: loaded.plugin, config: { signIn: 'link' } });
  await host.start();
  const [handler] = host.get(Paths);
  if (handler === undefined) throw new Error('the plugin console has no handler');
  return handler;
}

/** Returns a certificate of this process for its loopback address. */
function servingPair(): KeyPair {
  const key = newKey();
  const names = { dnsNames: ['localhost'], ipAddresses: [address], usages: ['server'] as const, days: certificateDays };
  const ca = selfSigned('oarlock console', newKey());
  return { certificate: signLeaf(ca, spkiOf(createPrivateKey(key)), { commonName: 'oarlock console', ...names }), key };
}

/** @throws StatusError `BadRequest` */
function parseBody(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch {
    throw badRequest('the body of the request is no JSON');
  }
}

function send(
  exchange: Exchange,
  { code, body, contentType = 'application/json', cacheControl = 'no-store', headers = {} }: PathResponse,
): void {
  for (const [name, value] of Object.entries({ 'Content-Type': contentType, 'Cache-Control': cacheControl, ...headers }))
    exchange.setHeader(name, value);
  exchange.send(code, Buffer.isBuffer(body) ? body : JSON.stringify(body));
}
