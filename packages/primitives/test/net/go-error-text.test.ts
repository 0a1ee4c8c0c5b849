import { getServers } from 'node:dns';
import { createServer as createHttpServer, get, type RequestOptions } from 'node:http';
import { createServer as createTlsServer, get as getTls } from 'node:https';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { connectionEnds, forwardErrorText, goErrorText, joinHostPort, requestErrorText } from '../../src/net/go-error-text.ts';

const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function listen<S extends Server>(server: S): Promise<number> {
  servers.push(server);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}
const onData = (act: (socket: Socket) => void) => listen(createServer((socket) => socket.once('data', () => act(socket))));

/** Returns the text of the error of a GET request. */
function textOf(url: string, options: RequestOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = (url.startsWith('https:') ? getTls : get)(url, { agent: false, ...options });
    const ends = connectionEnds(request);
    request.once('error', (error) => resolve(goErrorText(error, ends())));
    request.once('response', () => reject(new Error('a response')));
  });
}
const dialText = (options: { readonly path: string } | { readonly host: string; readonly port: number }): Promise<string> =>
  new Promise((resolve) => connect(options).once('error', (error) => resolve(goErrorText(error))));

function selfSigned(names: string): { readonly key: string; readonly cert: string } {
  const directory = mkdtempSync(join(tmpdir(), 'go-error-text-'));
  const [keyFile, certFile] = [join(directory, 'key'), join(directory, 'cert')];
  const subject = ['-subj', '/CN=x', '-addext', `subjectAltName=${names}`];
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  execFileSync('openssl', ['req', '-x509', ...newKey, '-keyout', keyFile, '-out', certFile, ...subject], { stdio: 'ignore' });
  const pair = { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8') };
  rmSync(directory, { recursive: true });
  return pair;
}

/** Returns a certificate that has expired a day ago. */
function expired(): { readonly key: string; readonly cert: string } {
  const directory = mkdtempSync(join(tmpdir(), 'go-error-text-'));
  const [keyFile, requestFile] = [join(directory, 'key'), join(directory, 'request')];
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  execFileSync('openssl', ['req', ...newKey, '-keyout', keyFile, '-out', requestFile, '-subj', '/CN=x'], { stdio: 'ignore' });
  const cert = execFileSync('openssl', ['x509', '-req', '-in', requestFile, '-signkey', keyFile, '-days', '-1'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const key = readFileSync(keyFile, 'utf8');
  rmSync(directory, { recursive: true });
  return { key, cert };
}

/** Returns a port on which nothing listens. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe('goErrorText of a dial', () => {
  it('has the text of a port without a listener', async () => {
    const port = await closedPort();
    expect(await dialText({ host: '127.0.0.1', port })).toBe(`dial tcp 127.0.0.1:${port}: connect: connection refused`);
    expect(await textOf(`http://127.0.0.1:${port}/`)).toBe(`dial tcp 127.0.0.1:${port}: connect: connection refused`);
  });
  it('has the text of a missing unix socket', async () => {
    expect(await dialText({ path: '/nonexistent/x.sock' })).toBe('dial unix /nonexistent/x.sock: connect: no such file or directory');
  });
  it('names the host and the DNS server of a failed lookup', () => {
    const fault = (code: string) => Object.assign(new Error(code), { code, syscall: 'getaddrinfo', hostname: 'x' });
    const [server = ''] = getServers();
    const on = /^[\d.]+$/.test(server) ? `${server}:53` : server;
    if (/^[\d.]+$/.test(server)) expect(goErrorText(fault('ENOTFOUND'))).toBe(`dial tcp: lookup x on ${on}: no such host`);
    expect(goErrorText(fault('ENOTFOUND'))).toMatch(/^dial tcp: lookup x( on \S+)?: no such host$/);
    expect(goErrorText(fault('EAI_AGAIN'))).toMatch(/^dial tcp: lookup x( on \S+)?: server misbehaving$/);
  });
  it('is the first of several addresses', () => {
    const fault = (address: string) => Object.assign(new Error(), { code: 'ECONNREFUSED', syscall: 'connect', address, port: 80 });
    const both = Object.assign(new AggregateError([fault('::1'), fault('127.0.0.1')]), { code: 'ECONNREFUSED' });
    expect(goErrorText(both)).toBe('dial tcp [::1]:80: connect: connection refused');
  });
  it.each([
    ['EHOSTUNREACH', 'connect: no route to host'],
    ['ENETUNREACH', 'connect: network is unreachable'],
    ['EADDRNOTAVAIL', 'connect: cannot assign requested address'],
    ['ETIMEDOUT', 'i/o timeout'],
  ])('has the text of %s', (code, text) => {
    const fault = Object.assign(new Error(), { code, syscall: 'connect', address: '10.0.0.1', port: 80 });
    expect(goErrorText(fault)).toBe(`dial tcp 10.0.0.1:80: ${text}`);
  });
});

describe('goErrorText of a connection', () => {
  it('names both ends of a connection that is reset', async () => {
    const port = await onData((socket) => socket.resetAndDestroy());
    expect(await textOf(`http://127.0.0.1:${port}/`)).toMatch(
      new RegExp(`^read tcp 127\\.0\\.0\\.1:\\d+->127\\.0\\.0\\.1:${port}: read: connection reset by peer$`),
    );
    expect(goErrorText(Object.assign(new Error(), { code: 'ECONNRESET', syscall: 'read' }))).toBe(
      'read tcp: read: connection reset by peer',
    );
    expect(goErrorText(Object.assign(new Error(), { code: 'EPIPE', syscall: 'write' }))).toBe('write tcp: write: broken pipe');
  });
  it('is EOF if the server closes the connection', async () => {
    const port = await onData((socket) => socket.end());
    expect(await textOf(`http://127.0.0.1:${port}/`)).toBe('EOF');
    expect(await textOf(`https://127.0.0.1:${port}/`)).toBe('EOF');
    expect(await fetch(`http://127.0.0.1:${port}/`).catch(goErrorText)).toBe('EOF');
  });
  it('has the texts of a deadline and of a canceled request', async () => {
    const port = await onData(() => {});
    expect(await textOf(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(5) })).toBe('context deadline exceeded');
    expect(await textOf(`http://127.0.0.1:${port}/`, { signal: AbortSignal.abort() })).toBe('context canceled');
    expect(goErrorText(AbortSignal.timeout(0).reason ?? new DOMException('', 'TimeoutError'))).toBe('context deadline exceeded');
  });
  it('quotes a response that is not HTTP', async () => {
    const port = await onData((socket) => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 0x28, 0xff])));
    expect(await textOf(`http://127.0.0.1:${port}/`)).toBe(
      'net/http: HTTP/1.x transport connection broken: malformed HTTP response "\\x15\\x03\\x01\\x00\\x02\\x02(\\xff"',
    );
  });
});

describe('goErrorText of TLS', () => {
  it('has the text of a server without TLS', async () => {
    const port = await listen(createHttpServer((_request, response) => response.end('x')));
    expect(await textOf(`https://127.0.0.1:${port}/`)).toBe('http: server gave HTTP response to HTTPS client');
  });
  it('has the texts of an unknown authority and of other names', async () => {
    const { key, cert } = selfSigned('DNS:a.example,DNS:b.example');
    const port = await listen(createTlsServer({ key, cert }, (_request, response) => response.end('x')));
    const url = `https://127.0.0.1:${port}/`;
    expect(await textOf(url)).toBe('tls: failed to verify certificate: x509: certificate signed by unknown authority');
    expect(await textOf(url, { ca: cert } as RequestOptions)).toBe(
      "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
    );
    expect(await textOf(url, { ca: cert, servername: 'c.example' } as RequestOptions)).toBe(
      'tls: failed to verify certificate: x509: certificate is valid for a.example, b.example, not c.example',
    );
  });
  it('has the times of a certificate that has expired', async () => {
    const { key, cert } = expired();
    const port = await listen(createTlsServer({ key, cert }, (_request, response) => response.end('x')));
    const text = await textOf(`https://127.0.0.1:${port}/`, { ca: cert } as RequestOptions);
    const [, now = '', limit = ''] =
      /^tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time (\S+Z) is after (\S+Z)$/.exec(
        text,
      ) ?? [];
    const days = (Date.parse(now) - Date.parse(limit)) / 86_400_000;
    expect(text).toContain('is after');
    expect(Math.round(days)).toBe(1);
  });
  it('has the times of a certificate that is not valid yet, and none if only an authority is out of time', () => {
    const fault = Object.assign(new Error('x'), { code: 'CERT_NOT_YET_VALID' });
    const ends = { localAddress: undefined, localPort: undefined, remoteAddress: undefined, remotePort: undefined };
    const from = Date.parse('2999-01-01T00:00:00Z');
    const text = 'tls: failed to verify certificate: x509: certificate has expired or is not yet valid';
    expect(goErrorText(fault, { ...ends, certificate: { from, to: from + 1 } })).toMatch(
      new RegExp(`^${text}: current time [-0-9]+T[:0-9]+Z is before 2999-01-01T00:00:00Z$`),
    );
    expect(goErrorText(fault, { ...ends, certificate: { from: 0, to: from } })).toBe(text);
  });
  it('knows the alerts by code and by message', () => {
    expect(goErrorText(Object.assign(new Error(), { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' }))).toBe(
      'remote error: tls: certificate required',
    );
    const message =
      'write EPROTO 80:error:0A000418:SSL routines:ssl3_read_bytes:tlsv1 alert unknown ca:rec_layer_s3.c:1605:SSL alert number 48';
    expect(goErrorText(Object.assign(new Error(message), { code: 'EPROTO' }))).toBe('remote error: tls: unknown certificate authority');
  });
});

it('goErrorText leaves other errors as they are', () => {
  expect(goErrorText(new Error('no'))).toBe('no');
  expect(goErrorText('no')).toBe('no');
  expect(goErrorText(Object.assign(new Error('address not allowed'), { code: 400 }))).toBe('address not allowed');
});
it('forwardErrorText has the attempts of both families', () => {
  const failure = (address: string) => ({ code: 'ECONNREFUSED', syscall: 'connect', address, port: 80, message: 'x' });
  expect(forwardErrorText(80, 's', [failure('10.0.0.1'), failure('127.0.0.1'), failure('::1')])).toBe(
    'failed to connect to localhost:80 inside namespace "s", IPv4: dial tcp4 127.0.0.1:80: connect: connection refused ' +
      'IPv6 dial tcp6 [::1]:80: connect: connection refused',
  );
  expect(forwardErrorText(80, 's', [{ message: 'the relay ended' }])).toBe(
    'failed to connect to localhost:80 inside namespace "s", the relay ended',
  );
});
it('requestErrorText names the request', () => {
  expect(requestErrorText('GET', `http://${joinHostPort('::1', 80)}/`, 'EOF')).toBe('Get "http://[::1]:80/": EOF');
});
