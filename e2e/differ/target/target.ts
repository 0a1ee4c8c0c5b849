import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { loadKubeconfig, type Kubeconfig } from '@oarlock/client/kubeconfig';
import { bodyBytes, type Answer, type ApiRequest } from '../request.ts';

/** An API server that answers requests. */
export interface Target {
  readonly server: string;
  /** @throws Error if the server does not answer */
  send(request: ApiRequest): Promise<Answer>;
  close(): void;
}

const timeoutMs = 60_000;
const maxBodyBytes = 64 << 20;

/** Connects to the cluster of a kubeconfig's current context. @throws KubeconfigError if the kubeconfig is invalid */
export async function connectTo(kubeconfig: string): Promise<Target> {
  const { options } = await loadKubeconfig(kubeconfig, { environment: process.env });
  return new HttpTarget(options);
}

class HttpTarget implements Target {
  readonly server: string;
  readonly #options: Kubeconfig['options'];
  readonly #agent: Agent | HttpAgent;

  constructor(options: Kubeconfig['options']) {
    this.#options = options;
    this.server = options.server.replace(/\/+$/, '');
    const { ca, cert, key, tlsServerName, insecureSkipTlsVerify } = options;
    this.#agent = this.server.startsWith('http:')
      ? new HttpAgent({ keepAlive: true, maxSockets: 16 })
      : new Agent({
          keepAlive: true,
          maxSockets: 16,
          ...(ca !== undefined && { ca }),
          ...(cert !== undefined && { cert }),
          ...(key !== undefined && { key }),
          ...(tlsServerName !== undefined && { servername: tlsServerName }),
          ...(insecureSkipTlsVerify === true && { rejectUnauthorized: false }),
        });
  }

  async #token(): Promise<string | undefined> {
    return this.#options.token ?? (await this.#options.credentials?.get())?.token;
  }

  async send({ method, path, headers, body }: ApiRequest): Promise<Answer> {
    const bytes = bodyBytes(body);
    const token = await this.#token();
    const options: RequestOptions = {
      method,
      agent: this.#agent,
      timeout: timeoutMs,
      headers: {
        accept: 'application/json',
        'user-agent': 'differ',
        ...(bytes !== undefined && { 'content-type': 'application/json', 'content-length': String(bytes.length) }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...headers,
      },
    };
    const open = this.server.startsWith('http:') ? httpRequest : httpsRequest;
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const call = open(`${this.server}${path}`, options, resolve);
      call.once('error', (error) => reject(new Error(`${method} ${path}: ${error.message}`, { cause: error })));
      call.once('timeout', () => call.destroy(new Error(`no answer within ${timeoutMs} ms`)));
      call.end(bytes);
    });
    return { status: response.statusCode ?? 0, headers: headersOf(response), body: await readBody(response) };
  }

  close(): void {
    this.#agent.destroy();
  }
}

function headersOf({ rawHeaders }: IncomingMessage): Record<string, string> {
  const found: Record<string, string> = {};
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name, value] = [(rawHeaders[at] as string).toLowerCase(), rawHeaders[at + 1] as string];
    found[name] = found[name] === undefined ? value : `${found[name]}\n${value}`;
  }
  return found;
}

async function readBody(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    size += (chunk as Buffer).length;
    if (size > maxBodyBytes) throw new Error(`the body is larger than ${maxBodyBytes} bytes`);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}
