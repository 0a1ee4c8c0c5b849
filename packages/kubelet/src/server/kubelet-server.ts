import { createServer as createLocalServer, type IncomingMessage, type Server as LocalServer, type ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { boundConnections, listenerDeadlines } from '@oarlock/primitives/net/bounded-listener';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import type { Kubelet } from '../kubelet/kubelet.ts';
import type { PodWorker } from '../pod/worker/pod-worker.ts';
import { findContainer } from '../pod-util/pods.ts';
import { KubeletAuthorizer } from './authorization.ts';
import { configz } from './configz.ts';
import { parseLogRequest, serveContainerLogs } from './container-logs.ts';
import { HttpError } from './http/http-error.ts';
import { LocalConnection } from './http/local-connection.ts';
import { portForwardProtocol } from './streaming/port-forward.ts';
import { webSocketForwardProtocols } from './streaming/port-forward-websocket.ts';
import { spdyCommandProtocols } from './streaming/remote-command-spdy.ts';
import { webSocketCommandProtocols } from './streaming/remote-command-websocket.ts';
import { serveNodeLogs } from './node-logs.ts';
import { ServingCertificate } from './http/serving-certificate.ts';
import { StreamingSessions } from './streaming/streaming-sessions.ts';
import { StatsSummary } from './stats/stats-summary.ts';
import { containerMetrics, probeMetrics, resourceMetrics } from './stats/resource-metrics.ts';
import { StreamingUpgrades, type StreamProtocols } from './streaming/streaming-upgrades.ts';

export interface KubeletServerOptions {
  readonly kubelet: Kubelet;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly listen: { readonly host: string; readonly port: number };
  /** Returns the metrics of this process in the Prometheus text format. */
  metrics(): Promise<string>;
}

const maxHeaderBytes = 256 * 1024;
const commands: StreamProtocols = { websocket: webSocketCommandProtocols, spdy: spdyCommandProtocols };
const forwards: StreamProtocols = { websocket: webSocketForwardProtocols, spdy: [portForwardProtocol] };
const codes: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** The HTTPS server of this process's kubelets. It serves logs, exec, attach, port-forward, pods, stats and metrics. */
export class KubeletServer {
  readonly #options: KubeletServerOptions;
  readonly #sockets = new Set<Duplex>();
  readonly #upgrades = new StreamingUpgrades();
  readonly #access: KubeletAuthorizer;
  readonly #summary: StatsSummary;
  readonly #certificate: ServingCertificate;
  readonly #sessions: StreamingSessions;
  #server: Server | undefined;
  /** Serves in-process connections with the same handlers. */
  readonly #local: LocalServer;

  constructor(options: KubeletServerOptions) {
    this.#options = options;
    const { client, clock } = options.kubelet.context;
    this.#access = new KubeletAuthorizer({ client, clock, signal: options.signal });
    this.#summary = new StatsSummary(options.kubelet);
    this.#certificate = new ServingCertificate(options.kubelet);
    const { streamingConnectionIdleTimeoutMs: idleTimeoutMs } = options.kubelet.config;
    this.#sessions = new StreamingSessions({ signal: options.signal, clock, log: options.log, idleTimeoutMs });
    this.#local = createLocalServer({ maxHeaderSize: maxHeaderBytes });
    this.#serve(this.#local);
  }

  /** Starts to listen and returns the port. @throws Error if the port is in use or no certificate can be issued */
  async start(): Promise<number> {
    const { listen } = this.#options;
    const pair = await this.#certificate.current();
    const server = createServer({
      ...this.#certificate.tls(pair),
      requestCert: true,
      rejectUnauthorized: false,
      // the command of exec is part of the URL
      maxHeaderSize: maxHeaderBytes,
      ALPNProtocols: ['http/1.1'],
      ...listenerDeadlines,
    });
    boundConnections(server);
    this.#serve(server);
    this.#server = server;
    this.#certificate.keep(server, pair);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(listen.port, listen.host, () => {
        server.off('error', reject);
        resolve();
      });
    });
    server.on('error', (error) => this.#options.log.warn({ err: error }, "the kubelet's server reported an error"));
    return (server.address() as AddressInfo).port;
  }

  /** Returns an in-process connection for the API server, which has the same handlers as the listener. @throws Error if the server has stopped */
  connect(): Duplex {
    if (this.#options.signal.aborted || this.#server?.listening !== true) throw new Error('the kubelet is not serving');
    const [near, far] = LocalConnection.pair();
    this.#local.emit('connection', far);
    return near;
  }

  #serve(server: Server | LocalServer): void {
    server.on('connection', (socket: Duplex) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    const { http } = this.#options.kubelet.context.metrics;
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      response.once('close', http.begin(request.method ?? '', request.url ?? ''));
      void this.#handle(request, response);
    });
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      socket.once('close', http.begin(request.method ?? '', request.url ?? ''));
      void this.#upgrade(request, socket, head);
    });
  }

  async stop(): Promise<void> {
    this.#certificate.stop();
    const server = this.#server;
    if (!server) return;
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const url = urlOf(request);
      await this.#authorize(request, url.pathname);
      await this.#route(request, response, url);
    } catch (error) {
      const { code, message } = this.#toHttpError(error);
      if (response.headersSent) response.destroy();
      else respond(response, { code, body: message });
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const { kubelet, signal } = this.#options;
    const [area = '', ...rest] = url.pathname.slice(1).split('/').map(decode);
    if (area === 'exec' || area === 'attach' || area === 'portForward') throw new HttpError(400, 'Upgrade request required');
    if (area !== 'containerLogs' && request.method !== 'GET' && request.method !== 'HEAD') throw new HttpError(405, 'method not allowed');
    const page = this.#pages[url.pathname.replace(/\/$/, '')];
    if (page) {
      const { type, body } = await page(signal);
      respond(response, { code: 200, body, type });
    } else if (area === 'containerLogs') {
      const { worker, container } = this.#find(rest);
      const logRequest = parseLogRequest(url.searchParams, kubelet.context.clock);
      await serveContainerLogs({ worker, container, logRequest }, { request, response, stopped: signal });
    } else if (area === 'logs') await serveNodeLogs(kubelet.config.systemLogDir, rest.join('/'), response);
    else throw new HttpError(404, '404 page not found');
  }

  /** The handlers of paths whose responses are not streamed, keyed by path. */
  readonly #pages: Readonly<Record<string, (signal: AbortSignal) => Promise<Page> | Page>> = {
    '/pods': () => json(this.#podList((worker) => worker.stage !== 'finished')),
    '/runningpods': () => json(this.#podList((worker) => worker.state.runningContainers.length > 0)),
    '/healthz': () => text('ok'),
    '/healthz/ping': () => text('ok'),
    '/healthz/log': () => text('ok'),
    '/healthz/syncloop': () => text(this.#syncLoopHealth()),
    '/configz': () => json(configz(this.#options.kubelet.config, this.#options.kubelet.context.facts)),
    '/stats/summary': async (signal) => json(await this.#summary.read(signal)),
    '/metrics': async () => metrics(await this.#options.metrics()),
    '/metrics/resource': async (signal) => metrics(await resourceMetrics(this.#options.kubelet, signal)),
    '/metrics/cadvisor': async (signal) => metrics(await containerMetrics(this.#options.kubelet, signal)),
    '/metrics/probes': () => metrics(probeMetrics(this.#options.kubelet)),
  };

  #podList(filter: (worker: PodWorker) => boolean): unknown {
    const items = [...this.#options.kubelet.agents.values()].flatMap(({ pods }) =>
      [...pods.workers].filter(filter).map(({ record }) => ({ ...record.pod, status: record.status ?? record.pod.status })),
    );
    return { kind: 'PodList', apiVersion: 'v1', metadata: {}, items };
  }

  #syncLoopHealth(): string {
    const { healthy, reason } = { reason: '', ...this.#options.kubelet.health() };
    if (!healthy) throw new HttpError(500, reason);
    return 'ok';
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy());
    try {
      const url = urlOf(request);
      await this.#authorize(request, url.pathname);
      const [area = '', ...rest] = url.pathname.slice(1).split('/').map(decode);
      this.#sessions.checkSessionLimit();
      if (area === 'portForward') {
        const serve = this.#sessions.forward(this.#findPod(rest), url.searchParams);
        this.#upgrades.accept(request, socket, { head, protocols: forwards, begin: (upgraded) => this.#sessions.track(serve(upgraded)) });
      } else if (area === 'exec' || area === 'attach') {
        const { worker, container } = this.#find(rest);
        const serve = this.#sessions.command(worker, { name: container, area, query: url.searchParams });
        this.#upgrades.accept(request, socket, { head, protocols: commands, begin: (upgraded) => this.#sessions.track(serve(upgraded)) });
      } else throw new HttpError(404, '404 page not found');
    } catch (error) {
      const { code, message } = this.#toHttpError(error);
      socket.end(
        `HTTP/1.1 ${code} ${codes[code] ?? 'Error'}\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(message)}\r\nConnection: close\r\n\r\n${message}`,
      );
    }
  }

  /** Returns the pod at the path `NAMESPACE/POD` or `NAMESPACE/POD/UID`. */
  #findPod([namespace = '', name = '', uid, ...more]: readonly string[]): PodWorker {
    if (namespace === '' || name === '' || more.length > 0) throw new HttpError(404, '404 page not found');
    for (const agent of this.#options.kubelet.agents.values()) {
      const worker = agent.pods.find(namespace, name);
      if (worker && (uid === undefined || worker.record.uid === uid)) return worker;
    }
    throw new HttpError(404, `pod "${name}" does not exist`);
  }

  /** Returns the container at the path `NAMESPACE/POD/CONTAINER` or `NAMESPACE/POD/UID/CONTAINER`, and its pod. */
  #find(parts: readonly string[]): { readonly worker: PodWorker; readonly container: string } {
    const [namespace = '', name = ''] = parts;
    const [uid, container = ''] = parts.length === 4 ? [parts[2], parts[3]] : [undefined, parts[2]];
    if (parts.length < 3 || parts.length > 4) throw new HttpError(404, '404 page not found');
    for (const agent of this.#options.kubelet.agents.values()) {
      const worker = agent.pods.find(namespace, name);
      if (!worker || (uid !== undefined && worker.record.uid !== uid)) continue;
      if (findContainer(worker.record.pod, container)) return { worker, container };
      throw new HttpError(404, `container "${container}" not found in pod "${name}"`);
    }
    throw new HttpError(404, `pod "${name}" does not exist`);
  }

  async #authorize(request: IncomingMessage, path: string): Promise<void> {
    const [nodeName = ''] = this.#options.kubelet.agents.keys();
    await this.#access.authorize(request, path, nodeName);
  }

  #toHttpError(error: unknown): { readonly code: number; readonly message: string } {
    if (error instanceof HttpError) return error;
    this.#options.log.warn({ err: error }, 'a request to the kubelet failed');
    return { code: 500, message: errorText(error) };
  }
}

function urlOf(request: IncomingMessage): URL {
  // Node reads a request line without a version as HTTP/0.9
  if (request.httpVersionMajor !== 1) throw new HttpError(request.httpVersionMajor === 0 ? 400 : 505, 'unsupported protocol version');
  try {
    return new URL(request.url ?? '/', 'https://kubelet');
  } catch (cause) {
    throw new HttpError(400, 'invalid URL', { cause });
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch (cause) {
    throw new HttpError(400, 'invalid URL', { cause });
  }
}

interface Page {
  readonly type: string;
  readonly body: string;
}
const json = (value: unknown): Page => ({ type: 'application/json', body: JSON.stringify(value) });
const metrics = (body: string): Page => ({ type: 'text/plain; version=0.0.4; charset=utf-8', body });
const text = (body: string): Page => ({ type: 'text/plain; charset=utf-8', body });

function respond(
  response: ServerResponse,
  { code, body, type = 'text/plain; charset=utf-8' }: { readonly code: number; readonly body: string; readonly type?: string | undefined },
): void {
  response.writeHead(code, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}
