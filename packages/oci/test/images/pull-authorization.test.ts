import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { close, listen } from '../fixtures/scripted-registry.ts';
import { code, image, PullBench } from '../fixtures/pull-bench.ts';

const bench = PullBench.use();
const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

describe('authorization', () => {
  const requireToken = (tokenHost: string, { header = 'Bearer good' } = {}) => {
    bench.registry.intercept = (request, response) => {
      if (request.headers.authorization === header) return false;
      response
        .writeHead(401, { 'www-authenticate': `Bearer realm="http://${tokenHost}/token",service="reg",scope="repository:app:pull"` })
        .end('{}');
      return true;
    };
  };

  it('uses Basic credentials after a challenge only', async () => {
    const seen: (string | undefined)[] = [];
    bench.registry.intercept = (request, response) => {
      seen.push(request.headers.authorization);
      if (request.headers.authorization === basic('user', 'secret')) return false;
      response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end();
      return true;
    };
    await expect(bench.store.images.pull({ reference: bench.reference() })).rejects.toEqual(code('Unauthorized', /pull access denied/));
    await expect(
      bench.store.images.pull({ reference: bench.reference(), credentials: { username: 'user', password: 'wrong' } }),
    ).rejects.toEqual(code('Unauthorized'));
    seen.length = 0;
    await bench.store.images.pull({
      reference: bench.reference(),
      credentials: { username: 'user', password: 'secret', serverAddress: `https://${bench.registry.host}/v1/` },
    });
    expect(seen[0]).toBeUndefined();
    expect(new Set(seen.slice(1))).toEqual(new Set([basic('user', 'secret')]));
    await expect(
      bench.store.images.pull({
        reference: bench.reference(),
        credentials: { username: 'user', password: 'secret', serverAddress: 'other.example.com' },
      }),
    ).rejects.toEqual(code('Unauthorized'));
  });

  it('gets a token with the credentials, and exchanges an identity token', async () => {
    const asked: string[] = [];
    const { server, host } = await listen((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        asked.push(`${request.method} ${request.url} ${request.headers.authorization ?? ''} ${body}`);
        response.end(JSON.stringify({ token: 'good', expires_in: 300 }));
      });
    });
    try {
      requireToken(host);
      await bench.store.images.pull({ reference: bench.reference(), credentials: { auth: Buffer.from('user:secret').toString('base64') } });
      expect(asked).toEqual([`GET /token?service=reg&scope=repository%3Aapp%3Apull&account=user ${basic('user', 'secret')} `]);
      asked.length = 0;
      await bench.store.images.pull({ reference: bench.reference(), credentials: { identityToken: 'refresh' } });
      expect(asked[0]).toMatch(/^POST \/token {2}grant_type=refresh_token&refresh_token=refresh&service=reg&scope=/);
      await bench.store.images.pull({ reference: bench.reference(), credentials: { registryToken: 'good' } });
      expect(asked).toHaveLength(1);
    } finally {
      await close(server);
    }
  });

  it('ends a loop of 401 answers', async () => {
    const { server, host } = await listen((_, response) => response.end(JSON.stringify({ token: 'bad' })));
    try {
      requireToken(host);
      await expect(
        bench.store.images.pull({ reference: bench.reference(), credentials: { username: 'a', password: 'b' } }),
      ).rejects.toEqual(code('Unauthorized'));
      expect(bench.registry.requests).toHaveLength(2);
    } finally {
      await close(server);
    }
  });

  it('never sends credentials to the host of a redirect', async () => {
    const received: unknown[] = [];
    const { server, host } = await listen((request, response) => {
      received.push(request.headers.authorization);
      response.end(image.layers.find(({ digest }) => request.url?.includes(digest))?.bytes ?? image.config.bytes);
    });
    try {
      bench.registry.intercept = (request, response) => {
        if (request.headers.authorization !== basic('user', 'secret'))
          response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
        else if (request.url?.includes('/blobs/') === true)
          response.writeHead(307, { location: `http://evil:pass@${host}${request.url}` }).end();
        else return false;
        return true;
      };
      await bench.store.images.pull({ reference: bench.reference(), credentials: { username: 'user', password: 'secret' } });
      expect(received).toEqual([undefined, undefined, undefined]);
    } finally {
      await close(server);
    }
  });

  it.each(['Basic realm="x"', 'Bearer realm="REALM",service="s"'])(
    'sends no credentials to the host of a redirect that requests them: %s',
    async (challenge) => {
      const received: unknown[] = [];
      const { server, host } = await listen((request, response) => {
        received.push([request.url?.split('?')[0]?.split('/')[1], request.headers.authorization]);
        if (request.url?.startsWith('/token') === true) response.end('{"token":"anonymous"}');
        else if (request.headers.authorization === undefined)
          response.writeHead(401, { 'www-authenticate': challenge.replace('REALM', `http://${host}/token`) }).end();
        else response.end(image.layers.find(({ digest }) => request.url?.includes(digest))?.bytes ?? image.config.bytes);
      });
      try {
        bench.registry.intercept = (request, response) => {
          if (request.headers.authorization !== basic('user', 'secret'))
            response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
          else if (request.url?.includes('/blobs/') === true) response.writeHead(307, { location: `http://${host}${request.url}` }).end();
          else return false;
          return true;
        };
        const pulled = bench.store.images.pull({ reference: bench.reference(), credentials: { username: 'user', password: 'secret' } });
        if (challenge.startsWith('Basic')) await expect(pulled).rejects.toMatchObject({ code: 'Unauthorized' });
        else await pulled;
        const credentials = new Set(received.map((each) => JSON.stringify(each)));
        expect(credentials).toEqual(
          new Set(challenge.startsWith('Basic') ? ['["v2",null]'] : ['["v2",null]', '["token",null]', '["v2","Bearer anonymous"]']),
        );
      } finally {
        await close(server);
      }
    },
  );

  it('takes credentials from config.json and a credential helper', async () => {
    bench.registry.intercept = (request, response) => {
      if (request.headers.authorization === basic('user', 'secret')) return false;
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
      return true;
    };
    const folder = join(bench.store.directory, 'config');
    await mkdir(folder);
    const dockerConfig = join(folder, 'config.json');
    await writeFile(
      dockerConfig,
      JSON.stringify({ auths: { [bench.registry.host]: { auth: Buffer.from('user:secret').toString('base64') } } }),
    );
    bench.store = await bench.store.reopen({ dockerConfig, helperPath: `${folder}:/usr/bin:/bin` });
    await bench.store.images.pull({ reference: bench.reference() });
    await bench.store.images.remove(image.config.digest);
    await writeFile(dockerConfig, JSON.stringify({ credHelpers: { [bench.registry.host]: 'test' } }));
    await writeFile(
      join(folder, 'docker-credential-test'),
      `#!/bin/sh\nread -r server\n[ "$1 $server" = "get ${bench.registry.host}" ] && echo '{"Username":"user","Secret":"secret"}'\n`,
      { mode: 0o755 },
    );
    await bench.store.images.pull({ reference: bench.reference() });
    await writeFile(dockerConfig, '{"auths": {"secret-in-a-broken-file');
    await expect(bench.store.images.pull({ reference: bench.reference() })).rejects.toEqual(code('FailedPrecondition', /it is not JSON$/));
  });
});
