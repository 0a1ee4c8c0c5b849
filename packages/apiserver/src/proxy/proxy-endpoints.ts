import { badRequest } from '@oarlock/api/status';
import type { Exchange, UpgradeRequest } from '../http/exchange.ts';
import type { RequestTarget } from '../http/path.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import type { ProxyClientCertificate } from './proxy-client-certificate.ts';
import type { ProxyTarget, ReverseProxy } from './reverse-proxy.ts';

type Destination = Extract<PipelineResponse, { kind: 'proxy' }>;

/** The exchange that is proxied, its path below the proxy subresource, and the upgrade it requests. */
export interface ProxiedExchange {
  readonly exchange: Exchange;
  readonly requestTarget: RequestTarget;
  readonly upgrade: UpgradeRequest | undefined;
}

/** Forwards requests for the subresource `proxy` to pods, services and nodes. */
export class ProxyEndpoints {
  readonly #proxy: ReverseProxy;
  readonly #kubelets: ProxyClientCertificate;

  constructor(proxy: ReverseProxy, kubelets: ProxyClientCertificate) {
    this.#proxy = proxy;
    this.#kubelets = kubelets;
  }

  /** Forwards a request. @throws StatusError `ServiceUnavailable` if the destination cannot be reached */
  async serve(
    { scheme, host, port, kubelet, allowLoopback = false }: Destination,
    { exchange, requestTarget: { rest }, upgrade }: ProxiedExchange,
  ) {
    if (rest === undefined) throw badRequest('the request target must name a proxy');
    const [path = '', query] = split(exchange.target, '?');
    const prefix = path.slice(0, path.length - rest.length);
    if (rest === '' && upgrade === undefined && (exchange.method === 'GET' || exchange.method === 'HEAD')) {
      // with the slash, relative links of the page lead through the proxy
      exchange.setHeader('Location', `${path}/${query === undefined ? '' : `?${query}`}`);
      exchange.send(301, '');
      return;
    }
    const target: ProxyTarget = {
      scheme,
      host,
      port,
      allowLoopback: allowLoopback || kubelet !== undefined,
      path: `${rest === '' ? '/' : rest}${query === undefined ? '' : `?${query}`}`,
      rewriting: { prefix, host: `${host.includes(':') ? `[${host}]` : host}:${port}` },
      ...(kubelet && { tls: await this.#kubelets.tls(kubelet.own) }),
    };
    if (upgrade === undefined) await this.#proxy.forward(target, exchange);
    else await this.#proxy.upgrade(target, exchange, upgrade);
  }
}

function split(text: string, at: string): readonly [string, string | undefined] {
  const index = text.indexOf(at);
  return index < 0 ? [text, undefined] : [text.slice(0, index), text.slice(index + 1)];
}
