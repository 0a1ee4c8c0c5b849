import { once } from 'node:events';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, it } from 'vitest';
import { startServer, type TestServer } from '../support/start-server.ts';

let server: TestServer;
afterEach(() => server.stop());

it('an HTTP/2 connection without a request ends after 90 seconds, whatever frames it sends', async () => {
  const clock = new FakeClock();
  server = await startServer({ clock });
  const session = server.session();
  await once(session, 'remoteSettings');
  const closed = once(session, 'close');
  for (let seconds = 0; seconds < 90; seconds += 30) {
    await new Promise((resolve) => session.ping(resolve));
    await clock.advance(30_000);
  }
  await closed;
});
