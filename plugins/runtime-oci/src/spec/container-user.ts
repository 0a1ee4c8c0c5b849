import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import type { SpecUser } from './runtime-spec.ts';

interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}
interface Group {
  readonly name: string;
  readonly gid: number;
  readonly members: readonly string[];
}
type Security = ContainerConfig['linux']['security'];

const maxId = 2 ** 31 - 1;
const isId = (text: string) => /^\d{1,10}$/.test(text) && Number(text) <= maxId;

/**
 * Determines the user and groups of a container from the pod's security context, else from the image's user, with the user database of the image,
 * whose files `read` returns; empty if a file does not exist.
 * @throws SupervisorError `InvalidArgument` if the image has no user or group of a name
 */
export function containerUser(security: Security, imageUser: string, read: (path: string) => string): SpecUser {
  const accounts = parseAccounts(read('/etc/passwd'));
  const groups = parseGroups(read('/etc/group'));
  const [imageName = '', imageGroup = ''] = imageUser.split(':');
  const own = security.runAsUser !== undefined ? String(security.runAsUser) : security.runAsUsername;
  const user = own === undefined || own === '' ? imageName : own;
  const account = accounts.find(({ name, uid }) => name === user || (isId(user) && uid === Number(user)));
  const uid = user === '' ? 0 : isId(user) ? Number(user) : account?.uid;
  if (uid === undefined) throw new SupervisorError('InvalidArgument', `unable to find user ${user}: no matching entries in passwd file`);
  const group = own === undefined || own === '' ? imageGroup : '';
  const gid =
    security.runAsGroup ?? (group === '' ? (account?.gid ?? accounts.find((one) => one.uid === uid)?.gid ?? 0) : groupId(group, groups));
  const name = account?.name ?? accounts.find((one) => one.uid === uid)?.name;
  const ofImage =
    security.supplementalGroupsPolicy === 'Strict' || name === undefined
      ? []
      : groups.filter(({ members }) => members.includes(name)).map((one) => one.gid);
  return { uid, gid, additionalGids: [...new Set([gid, ...ofImage, ...(security.supplementalGroups ?? [])])] };
}

function groupId(text: string, groups: readonly Group[]): number {
  const gid = isId(text) ? Number(text) : groups.find(({ name }) => name === text)?.gid;
  if (gid === undefined) throw new SupervisorError('InvalidArgument', `unable to find group ${text}: no matching entries in group file`);
  return gid;
}

function parseAccounts(text: string): readonly Account[] {
  return lines(text).flatMap(([name = '', , uid = '', gid = '']) =>
    isId(uid) && isId(gid) ? [{ name, uid: Number(uid), gid: Number(gid) }] : [],
  );
}
function parseGroups(text: string): readonly Group[] {
  return lines(text).flatMap(([name = '', , gid = '', members = '']) =>
    isId(gid) ? [{ name, gid: Number(gid), members: members.split(',').filter((member) => member !== '') }] : [],
  );
}
const lines = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.split(':'));
