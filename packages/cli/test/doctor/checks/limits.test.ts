import { expect, it } from 'vitest';
import { inotify, openFiles } from '../../../src/doctor/checks/limits.ts';
import { fakeMachine } from '../../support/fake-machine.ts';

const context = (files: Readonly<Record<string, string>>) => ({ machine: fakeMachine({ files }), dataDir: '/data' });
const limits = (soft: string) =>
  context({ '/proc/self/limits': `Max cpu time  unlimited\nMax open files            ${soft}        1048576      files\n` });

it('reads the limit of open files', async () => {
  expect(await openFiles.run(limits('1024'))).toMatchObject({ level: 'warn', found: '1024 for each process' });
  expect(await openFiles.run(limits('16384'))).toMatchObject({ level: 'ok' });
  expect(await openFiles.run(limits('unlimited'))).toMatchObject({ level: 'ok' });
});

it('names the limit of inotify that is too low', async () => {
  const files = { '/proc/sys/fs/inotify/max_user_instances': '128\n', '/proc/sys/fs/inotify/max_user_watches': '8192\n' };
  expect(await inotify.run(context(files))).toMatchObject({ level: 'warn', found: 'fs.inotify.max_user_watches is 8192' });
  const enough = { ...files, '/proc/sys/fs/inotify/max_user_watches': '524288\n' };
  expect(await inotify.run(context(enough))).toEqual({ level: 'ok', found: 'max_user_instances 128, max_user_watches 524288' });
});
