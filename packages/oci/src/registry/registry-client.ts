import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { errorText } from '@oarlock/primitives/error-text';
import { digestOf, isDigest, type Digest } from '../content/digest.ts';
import { acceptedManifests, limits } from '../content/manifest.ts';
import { OciError } from '../oci-error.ts';
import { repositoryName, type Reference } from '../reference.ts';
import { Authorizer } from './authorizer.ts';
import type { Credentials } from './credentials.ts';
import type { Capability, RegistryHost } from './host-config.ts';
import { discard, readBody, type HttpClient, type HttpResponse } from './http-client.ts';
import { parseUrl } from './parse-url.ts';
import { hasNoListener, registryMessage, RegistryBusyError, RetriedError, retryAfterMs } from './registry-errors.ts';

export interface RegistryClientOptions {
  readonly client: HttpClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly reference: Reference;
  readonly hosts: readonly RegistryHost[];
  /** Returns the credentials for a host and port. */
  credentialsFor(host: string): Credentials | undefined;
}
export interface FetchedManifest {
  readonly bytes: Buffer;
  readonly digest: Digest;
  readonly contentType: string | undefined;
}
interface HostRequest {
  readonly method: 'GET' | 'HEAD';
  /** The method that errors name, if it is another one. */
  readonly reportedMethod?: 'GET' | 'HEAD' | undefined;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The time until the end of the body; by default that of a body that is read into memory. */
  readonly bodyTimeoutMs?: number;
  readonly signal: AbortSignal;
}

const maxRedirects = 5;
const maxAttempts = 5;
const maxErrorBody = 64 * 1024;
/** The time for a manifest, an error or another body that is read into memory. */
export const smallBodyMs = 60_000;

/** Pulls from one repository (OCI distribution specification 1.1, docker registry v2), through its mirrors. */
export class RegistryClient {
  readonly #options: RegistryClientOptions;
  /** By the host of the pull, then by the origin that a request is sent to. */
  readonly #authorizers = new Map<RegistryHost, Map<string, Authorizer>>();

  constructor(options: RegistryClientOptions) {
    this.#options = options;
  }

  /** Returns the digest that the registry has for a tag without the manifest, or undefined if the registry does not report it. @throws OciError */
  async resolve(tag: string, signal: AbortSignal): Promise<Digest | undefined> {
    return this.#onHosts(
      'resolve',
      async (host) => {
        const response = await this.#request(host, {
          method: 'HEAD',
          path: `manifests/${tag}`,
          headers: { accept: acceptedManifests },
          signal,
        });
        discard(response);
        const digest = response.headers['docker-content-digest'];
        return isDigest(digest) ? digest : undefined;
      },
      signal,
    );
  }

  /**
   * Returns the manifest or index to which a reference resolves. Requests the manifest at once; containerd requests its digest first, and users search
   * for containerd's texts, so that errors name a HEAD request. @throws OciError
   */
  resolvedManifest(tagOrDigest: string, signal: AbortSignal): Promise<FetchedManifest> {
    return this.#manifest(tagOrDigest, { signal, reportedMethod: 'HEAD' });
  }

  /** Returns a manifest or index by digest, verified. @throws OciError */
  manifest(digest: Digest, signal: AbortSignal): Promise<FetchedManifest> {
    return this.#manifest(digest, { signal });
  }

  async #manifest(
    tagOrDigest: string,
    { signal, reportedMethod }: Pick<HostRequest, 'signal' | 'reportedMethod'>,
  ): Promise<FetchedManifest> {
    return this.#onHosts(
      isDigest(tagOrDigest) ? 'pull' : 'resolve',
      async (host) => {
        const response = await this.#request(host, {
          method: 'GET',
          reportedMethod,
          path: `manifests/${tagOrDigest}`,
          headers: { accept: acceptedManifests },
          signal,
        });
        const bytes = await readBody(response, limits.manifestBytes);
        const digest = digestOf(bytes);
        const expected = isDigest(tagOrDigest) ? tagOrDigest : response.headers['docker-content-digest'];
        if (isDigest(expected) && expected !== digest)
          throw new OciError('InvalidContent', `unexpected digest of the manifest ${tagOrDigest}: ${digest}, expected ${expected}`);
        return { bytes, digest, contentType: response.headers['content-type'] };
      },
      signal,
    );
  }

  /**
   * Opens a blob at an offset on each host until one succeeds. `read` reads the body; if it throws `Unavailable`, the same host is requested again. The offset
   * that `read` receives is 0 if the server does not support ranges.
   */
  async blob(digest: Digest, { offset, read, bodyTimeoutMs, signal }: BlobRequest): Promise<void> {
    await this.#onHosts(
      'pull',
      async (host) => {
        await this.#retry(signal, async () => {
          const from = offset();
          const response = await this.#request(host, {
            method: 'GET',
            path: `blobs/${digest}`,
            headers: { accept: 'application/octet-stream, */*', ...(from > 0 && { range: `bytes=${from}-` }) },
            bodyTimeoutMs,
            signal,
          });
          const [, start] = /^bytes (\d+)-/.exec(response.headers['content-range'] ?? '') ?? [];
          if (response.status === 206 && Number(start) !== from) {
            response.body.destroy();
            throw new OciError('InvalidContent', `the registry answered a request for the range from ${from} with another range`);
          }
          await read(response, response.status === 206 ? from : 0);
        });
      },
      signal,
    );
  }

  async #onHosts<T>(capability: Capability, work: (host: RegistryHost) => Promise<T>, signal: AbortSignal): Promise<T> {
    const { hosts, log, reference } = this.#options;
    const usable = hosts.filter(({ capabilities }) => capabilities.has(capability));
    let failure: unknown = new OciError('FailedPrecondition', `no host of ${reference.host} has the capability "${capability}"`);
    for (const host of usable) {
      try {
        return await work(host);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof OciError) || error.code === 'NoSpace') throw error;
        // the last host is the registry, whose answer is the one that users expect
        failure = error;
        if (host.isMirror) log.info({ host: host.baseUrl, reason: errorText(error) }, 'a mirror failed; trying the next host');
      }
    }
    throw failure;
  }

  /** Sends a request with retries and authorization, and follows redirects. The status is 200 or 206. */
  #request(host: RegistryHost, request: HostRequest): Promise<HttpResponse> {
    return this.#retry(request.signal, async () => {
      const response = await this.#authorized(host, request);
      if (response.status === 200 || response.status === 206) return response;
      throw await this.#failure(host, request, response);
    });
  }

  /** Returns the authorizer of a host; of the target of a redirect without the credentials of the host, which are not for that server. */
  #authorizer(host: RegistryHost, origin: string): Authorizer {
    const own = new URL(host.baseUrl);
    const authorizers = this.#authorizers.get(host) ?? new Map<string, Authorizer>();
    this.#authorizers.set(host, authorizers);
    const known = authorizers.get(origin);
    if (known) return known;
    const { client, clock, reference, credentialsFor } = this.#options;
    const credentials = origin === own.origin ? credentialsFor(host.isMirror ? own.host : reference.host) : undefined;
    const authorizer = new Authorizer({ client, clock, host, credentials, repository: reference.repository });
    authorizers.set(origin, authorizer);
    return authorizer;
  }

  /** Sends a request, answers the challenge of each server once, and follows redirects. */
  async #authorized(host: RegistryHost, request: HostRequest): Promise<HttpResponse> {
    const { reference } = this.#options;
    let url = new URL(`${host.baseUrl}/${reference.repository}/${request.path}`);
    if (host.isMirror) url.searchParams.set('ns', reference.host);
    const { origin } = url;
    const challenged = new Set<Authorizer>();
    for (let redirects = 0; redirects <= maxRedirects; ) {
      const authorizer = this.#authorizer(host, url.origin);
      const response = await this.#send(host, request, { url, isOwn: url.origin === origin, authorization: authorizer.header() });
      if (response.status === 401 && !challenged.has(authorizer)) {
        challenged.add(authorizer);
        discard(response);
        await authorizer.onUnauthorized(response, request.signal);
        continue;
      }
      if (![301, 302, 303, 307, 308].includes(response.status)) return response;
      discard(response);
      url = redirectTarget(response, url);
      redirects += 1;
    }
    throw new OciError('InvalidContent', `the registry redirects more than ${maxRedirects} times`);
  }

  /** Sends one request. Headers and client certificates of the host are not sent to another origin. */
  #send(
    host: RegistryHost,
    { method, reportedMethod, headers, bodyTimeoutMs = smallBodyMs, signal }: HostRequest,
    { url, isOwn, authorization }: { readonly url: URL; readonly isOwn: boolean; readonly authorization: string | undefined },
  ): Promise<HttpResponse> {
    return this.#options.client.send({
      url,
      method,
      reportedMethod,
      headers: { ...(isOwn && host.headers), ...headers, ...(authorization !== undefined && { authorization }) },
      tls: isOwn ? host.tls : { ...host.tls, certificates: [] },
      dialTimeoutMs: host.dialTimeoutMs,
      bodyTimeoutMs,
      signal,
    });
  }

  async #retry<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const { clock, random } = this.#options;
    const backoff = new Backoff({ firstMs: 200, longestMs: 10_000, jitter: 0.5, random });
    for (;;) {
      try {
        return await work();
      } catch (error) {
        signal.throwIfAborted();
        const isFinal = !(error instanceof OciError) || error.code !== 'Unavailable' || error instanceof RetriedError;
        if (isFinal) throw error;
        const delay = backoff.next();
        if (backoff.failures >= maxAttempts || hasNoListener(error)) throw new RetriedError(error);
        await clock.sleep(Math.max(delay, error instanceof RegistryBusyError ? error.retryAfterMs : 0), signal);
      }
    }
  }

  async #failure(host: RegistryHost, { method, reportedMethod = method, path }: HostRequest, response: HttpResponse): Promise<OciError> {
    const { reference, clock } = this.#options;
    const { status, headers } = response;
    const url = `${host.baseUrl}/${reference.repository}/${path}`;
    // the status reports the failure if the body cannot be read
    const body = await readBody(response, maxErrorBody).catch(() => Buffer.alloc(0));
    const detail = registryMessage(body.toString('utf8'));
    const message = `unexpected status from ${reportedMethod} request to ${url}: ${status}${detail}`;
    if (status === 401 || status === 403)
      return new OciError('Unauthorized', `pull access denied, repository does not exist or may require authorization: ${message}`);
    if (status === 404) return new OciError('NotFound', `${nameOf(reference, path)}: not found`);
    if (status === 429 || status >= 500) return new RegistryBusyError(message, retryAfterMs(headers['retry-after'], clock));
    return new OciError('InvalidContent', message);
  }
}

export interface BlobRequest {
  /** Returns the number of bytes that are already verified into the caller's hash. */
  offset(): number;
  read(response: HttpResponse, offset: number): Promise<void>;
  /** The time until the end of the body; infinite for a body that only has to bring bytes. */
  readonly bodyTimeoutMs: number;
  readonly signal: AbortSignal;
}

/** Returns the address of a redirect. @throws OciError `InvalidContent` if it is not an address that a registry may redirect to */
function redirectTarget({ headers }: HttpResponse, from: URL): URL {
  const next = parseUrl(headers.location ?? '', from);
  if (!next || (next.protocol !== 'https:' && next.protocol !== 'http:') || (next.protocol === 'http:' && from.protocol === 'https:'))
    throw new OciError('InvalidContent', 'the registry redirects to an address that is not allowed');
  next.username = '';
  next.password = '';
  return next;
}

const nameOf = (reference: Reference, path: string): string => {
  const wanted = path.slice(path.indexOf('/') + 1);
  return `${repositoryName(reference)}${isDigest(wanted) ? '@' : ':'}${wanted}`;
};
