import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { parseExact } from '@oarlock/api/json/exact-json';
import * as x509 from '@peculiar/x509';

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const dayMs = 86_400_000;
x509.cryptoProvider.set(webcrypto);

interface Pair {
  readonly certificate: string;
  readonly key: string;
}
/** Creates a self-signed CA certificate for a Service's name and this machine. */
async function selfSigned(): Promise<Pair> {
  const keys = (await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair;
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name: 'CN=webhook',
    notBefore: new Date(Date.now() - dayMs),
    notAfter: new Date(Date.now() + dayMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.SubjectAlternativeNameExtension([
        { type: 'dns', value: 'hook.d.svc' },
        { type: 'dns', value: 'localhost' },
        { type: 'ip', value: '127.0.0.1' },
      ]),
    ],
  });
  return {
    certificate: certificate.toString('pem'),
    key: x509.PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey), 'PRIVATE KEY'),
  };
}

export interface Review {
  readonly apiVersion: string;
  readonly request: {
    readonly uid: string;
    readonly operation: string;
    readonly name?: string;
    readonly object: Record<string, unknown> | null;
    readonly oldObject: Record<string, unknown> | null;
    readonly [key: string]: unknown;
  };
}
const switchingProtocols = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n';
export type Answer = Readonly<Record<string, unknown>>;
export type Handler = (review: Review, path: string) => Answer | number | string | Promise<Answer | number | string>;

/** Serves the webhooks of a test: an object is a `response`, a string is the complete body, a number the status. */
export class WebhookServer {
  readonly reviews: Review[] = [];
  readonly paths: string[] = [];
  connections = 0;
  handler: Handler = () => ({ allowed: true });
  readonly #server: Server;
  readonly caBundle: string;

  private constructor(server: Server, certificate: string) {
    this.#server = server;
    this.caBundle = Buffer.from(certificate).toString('base64');
  }

  static async start(): Promise<WebhookServer> {
    const { certificate, key } = await selfSigned();
    const server = createServer({ cert: certificate, key });
    const webhooks = new WebhookServer(server, certificate);
    server.on('secureConnection', () => {
      webhooks.connections++;
    });
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const review = parseExact(Buffer.concat(chunks).toString()) as Review;
        webhooks.reviews.push(review);
        webhooks.paths.push(request.url ?? '');
        void Promise.resolve(webhooks.handler(review, (request.url ?? '').split('?')[0] ?? '')).then((answer) => {
          if (answer === 101) request.socket.end(switchingProtocols);
          else if (typeof answer === 'number') response.writeHead(answer).end('out of order');
          else if (typeof answer === 'string') response.end(answer);
          else
            response.end(
              JSON.stringify({
                apiVersion: review.apiVersion,
                kind: 'AdmissionReview',
                response: { uid: review.request.uid, ...answer },
              }),
            );
        });
      });
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return webhooks;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }
  url(path = '/'): string {
    return `https://localhost:${this.port}${path}`;
  }
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }
}

export const patchAnswer = (...operations: object[]): Answer => ({
  allowed: true,
  patchType: 'JSONPatch',
  patch: Buffer.from(JSON.stringify(operations)).toString('base64'),
});
