import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import type { Readable } from 'node:stream';
import { json } from 'node:stream/consumers';
import { rejectUpgrade } from '@oarlock/primitives/net/keep-alive-connection';
import { socketPath } from '@oarlock/primitives/os/socket-path';
import { OciError, type OciErrorCode } from '../oci-error.ts';
import type { ImageCommands, ListedImage } from './image-commands.ts';
import { imageSocket } from './image-server.ts';

/** Returns the commands of the process that serves the store in a directory (`ImageServer`), or undefined if none does. */
export async function connectImages(directory: string): Promise<ImageCommands | undefined> {
  let path: string;
  try {
    path = socketPath(directory, imageSocket);
    const probe = connect(path);
    await once(probe, 'connect');
    probe.destroy();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ECONNREFUSED') return undefined;
    throw error;
  }
  return {
    list: () => call<readonly ListedImage[]>({ socketPath: path, method: 'GET', path: '/images' }),
    pull: (reference, signal) =>
      call<ListedImage>({ socketPath: path, method: 'POST', path: `/images/pull${query(reference)}`, ...(signal && { signal }) }),
    load: (archive, { name, signal } = {}) =>
      call<readonly ListedImage[]>({ socketPath: path, method: 'POST', path: `/images${query(name)}`, ...(signal && { signal }) }, archive),
    remove: async (image) => {
      await call<object>({ socketPath: path, method: 'DELETE', path: `/images${query(image)}` });
    },
  };
}

const query = (name: string | undefined): string => (name === undefined ? '' : `?name=${encodeURIComponent(name)}`);

interface Call {
  readonly socketPath: string;
  readonly method: string;
  readonly path: string;
  readonly signal?: AbortSignal;
}

async function call<T>(options: Call, body?: Readable): Promise<T> {
  // this side closes the connection, after it has read an answer that arrives while it sends an archive
  const request = httpRequest({ ...options, agent: false, headers: { connection: 'keep-alive' } });
  rejectUpgrade(request);
  const answered = once(request, 'response') as Promise<[IncomingMessage]>;
  if (body === undefined) request.end();
  else {
    body.once('error', (error) => request.destroy(error));
    body.pipe(request);
  }
  try {
    const [response] = await answered;
    request.on('error', () => {}); // the process answered before it had read the whole archive
    const answer = await json(response);
    if (response.statusCode === 200) return answer as T;
    const { code, message } = answer as { readonly code?: OciErrorCode; readonly message: string };
    throw code === undefined ? new Error(message) : new OciError(code, message);
  } finally {
    body?.destroy();
    request.destroy();
  }
}
