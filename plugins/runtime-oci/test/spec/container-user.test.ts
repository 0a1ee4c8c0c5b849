import { describe, expect, it } from 'vitest';
import { containerUser } from '../../src/spec/container-user.ts';
import { namespaces } from '../support/pod.ts';

const files: Readonly<Record<string, string>> = {
  '/etc/passwd': 'root:x:0:0:root:/root:/bin/sh\n# comment\nweb:x:33:34:web:/:/bin/false\nbad:x:99999999999:1::/:\n',
  '/etc/group': 'root:x:0:\nweb:x:34:\nmedia:x:50:web,other\nlogs:x:51:root\n',
};
const read = (path: string) => files[path] ?? '';
const userOf = (imageUser: string, security: Partial<Parameters<typeof containerUser>[0]> = {}) =>
  containerUser({ namespaces, ...security }, imageUser, read);

describe('containerUser', () => {
  it('takes the user of the image by name or id, with its primary and its other groups', () => {
    const web = { uid: 33, gid: 34, additionalGids: [34, 50] };
    expect(userOf('web')).toEqual(web);
    expect(userOf('33')).toEqual(web);
    expect(userOf('')).toEqual({ uid: 0, gid: 0, additionalGids: [0, 51] });
    expect(userOf('4000')).toEqual({ uid: 4000, gid: 0, additionalGids: [0] });
  });

  it('takes the group of the image by name or id', () => {
    expect(userOf('web:media')).toEqual({ uid: 33, gid: 50, additionalGids: [50] });
    expect(userOf('4000:60')).toEqual({ uid: 4000, gid: 60, additionalGids: [60] });
  });

  it('prefers the security context of the pod, whose user does not get the group of the image', () => {
    expect(userOf('web:media', { runAsUser: 4000 })).toEqual({ uid: 4000, gid: 0, additionalGids: [0] });
    expect(userOf('4000', { runAsUsername: 'web' })).toEqual({ uid: 33, gid: 34, additionalGids: [34, 50] });
    expect(userOf('web', { runAsGroup: 7, supplementalGroups: [8, 50] })).toEqual({ uid: 33, gid: 7, additionalGids: [7, 50, 8] });
  });

  it('ignores the groups of the image with the policy Strict', () => {
    const strict = { supplementalGroupsPolicy: 'Strict', supplementalGroups: [8] } as const;
    expect(userOf('web', strict)).toEqual({ uid: 33, gid: 34, additionalGids: [34, 8] });
  });

  it('rejects names that the image lacks, and ids that are out of range', () => {
    expect(() => userOf('nobody')).toThrow('unable to find user nobody: no matching entries in passwd file');
    expect(() => userOf('web:absent')).toThrow('unable to find group absent: no matching entries in group file');
    expect(() => userOf('4294967296')).toThrow('unable to find user 4294967296');
    expect(() => userOf('bad')).toThrow('unable to find user bad');
  });
});
