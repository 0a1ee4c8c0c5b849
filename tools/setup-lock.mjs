// A lock between processes of one host. Uses only modules of Node, because no package is installed yet.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Returns the address of the lock of a folder: a socket that its owner listens on, so that it ends with the owner, however that ends.
 * Linux has names without a file; elsewhere a killed owner leaves a file on which nothing listens.
 */
export function lockAddress(folder, platform = process.platform) {
  const name = `oarlock-setup-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`;
  if (platform === 'win32') return `\\\\.\\pipe\\${name}`;
  return platform === 'linux' ? `\0${name}` : join(tmpdir(), `${name}.sock`);
}

const heldServers = new Set();

/**
 * Returns the file descriptors of the locks that this process holds. A program that inherits them holds the locks until it ends, also if this process is
 * killed before.
 */
export const lockDescriptors = () => [...heldServers].map((server) => server._handle?.fd).filter((fd) => fd >= 0);

/** Listens at the address; returns undefined if another process does. */
async function listen(address) {
  const server = createServer();
  const waiters = new Set();
  server.on('connection', (socket) => {
    waiters.add(socket);
    socket.on('error', () => socket.destroy()); // a waiter that was killed
    socket.on('close', () => waiters.delete(socket));
    socket.write(`${process.pid}\n`);
  });
  server.listen(address);
  try {
    await once(server, 'listening');
  } catch (error) {
    if (error.code === 'EADDRINUSE') return undefined;
    throw error;
  }
  heldServers.add(server);
  return () => {
    heldServers.delete(server);
    server.close();
    for (const socket of waiters) socket.destroy();
  };
}

const answerMs = 1_000;

/**
 * Waits until the owner of the lock, and the programs that hold the lock with it, release it or end. `onWait` is called with the process id of the owner, or
 * with undefined if only its programs remain.
 */
async function ownerEnds(address, onWait, signal) {
  const socket = connect(address);
  const abort = () => socket.destroy(signal.reason);
  signal.addEventListener('abort', abort);
  // a program that an owner has left does not answer
  const silent = setTimeout(() => onWait(undefined), answerMs);
  socket.once('data', (data) => {
    clearTimeout(silent);
    onWait(Number.parseInt(data.toString(), 10));
  });
  try {
    signal.throwIfAborted();
    await once(socket, 'close');
  } catch (error) {
    if (signal.aborted) throw error;
    if (error.code === 'ECONNREFUSED' && !address.startsWith('\0')) rmSync(address, { force: true });
    // otherwise the owner has just ended
    else if (!['ECONNREFUSED', 'ENOENT', 'ECONNRESET'].includes(error.code)) throw error;
  } finally {
    clearTimeout(silent);
    signal.removeEventListener('abort', abort);
    socket.destroy();
  }
}

/** Runs `work` while no other process of this host runs work for the same folder; waits for it before. */
export async function withLock(folder, work, { onWait = () => undefined, timeoutMs = 60 * 60_000, address = lockAddress(folder) } = {}) {
  const signal = AbortSignal.timeout(timeoutMs);
  let release = await listen(address);
  while (release === undefined) {
    await ownerEnds(address, onWait, signal);
    release = await listen(address);
  }
  try {
    return await work();
  } finally {
    release();
  }
}
