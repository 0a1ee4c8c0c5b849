import { once } from 'node:events';
import { chmod, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { socketPath } from '@oarlock/primitives/os/socket-path';
import { OciError } from '../oci-error.ts';
import type { ImageCommands, ListedImage } from './image-commands.ts';

/** Name of the socket in the directory of the process that has the store open. */
export const imageSocket = 'images.sock';
const maxConnections = 16;

/**
 * Serves the commands of a store on a unix socket, as HTTP, while another process cannot open the store. Only the user of this process and root can
 * connect. A request ends when its client is gone.
 */
export class ImageServer {
  readonly #open: () => Promise<ImageCommands>;
  readonly #server: Server;

  /** `open` is called for each request. */
  constructor(open: () => Promise<ImageCommands>) {
    this.#open = open;
    // an archive may take longer than the default limit for a request
    this.#server = createServer({ requestTimeout: 0 }, (request, response) => void this.#answer(request, response));
    this.#server.maxConnections = maxConnections;
  }

  /** Listens in a directory, which one process uses at a time: the socket of an earlier process is removed. */
  async listen(directory: string): Promise<void> {
    const path = join(directory, imageSocket);
    await rm(path, { force: true });
    this.#server.listen(socketPath(directory, imageSocket));
    await once(this.#server, 'listening');
    await chmod(path, 0o600);
  }

  /** Ends all requests. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort(new Error('the client of the image store is gone')));
    const [status, body] = await this.#run(request, gone.signal).then(
      (result) => [200, result ?? {}] as const,
      (error: unknown) => [400, describe(error)] as const,
    );
    request.resume(); // the rest of an archive that was rejected
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  async #run(request: IncomingMessage, signal: AbortSignal): Promise<ListedImage | readonly ListedImage[] | void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://images');
    const name = searchParams.get('name') ?? undefined;
    const commands = await this.#open();
    switch (`${request.method} ${pathname}`) {
      case 'GET /images':
        return commands.list();
      case 'POST /images':
        return commands.load(bodyOf(request), { name, signal });
      case 'POST /images/pull':
        return commands.pull(name ?? '', signal);
      case 'DELETE /images':
        return commands.remove(name ?? '');
      default:
        throw new OciError('Unsupported', `the image store has no ${request.method} ${pathname}`);
    }
  }
}

/** Returns the body as a stream that can be destroyed without its connection, on which the answer is sent. */
function bodyOf(request: IncomingMessage): PassThrough {
  const body = new PassThrough();
  body.on('error', () => {}); // the reader throws it
  request.once('close', () => {
    if (!request.complete) body.destroy(new OciError('InvalidContent', 'the archive ended early'));
  });
  return request.pipe(body);
}

/** Returns an error as it is sent to a command. */
function describe(error: unknown): { readonly code?: string; readonly message: string } {
  if (error instanceof OciError) return { code: error.code, message: error.message };
  return { message: error instanceof Error ? error.message : String(error) };
}
