import { errorText } from '../error-text.ts';

/** Reasons of failed system calls in words. Node.js shows the code, the call and the path instead. */
const reasons: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EBUSY: 'it is in use',
  EDQUOT: 'the disk quota is exceeded',
  EEXIST: 'it exists already',
  EFBIG: 'it would be too large',
  EIO: 'the disk reports an error',
  EISDIR: 'it is a directory',
  ELOOP: 'its path has too many symbolic links',
  EMFILE: 'this process has too many open files: raise the limit (`ulimit -n`)',
  ENAMETOOLONG: 'its name is too long',
  ENFILE: 'this machine has too many open files',
  ENOENT: 'no such file or directory',
  ENOSPC: 'no space is left on the disk',
  ENOTDIR: 'a part of its path is not a directory',
  ENOTEMPTY: 'the directory is not empty',
  EPERM: 'operation not permitted',
  EROFS: 'the file system is read-only',
};

const participles: Readonly<Record<string, string>> = {
  access: 'accessed',
  chmod: 'changed',
  chown: 'changed',
  copyfile: 'copied',
  fsync: 'written',
  link: 'created',
  lstat: 'read',
  mkdir: 'created',
  mkdtemp: 'created',
  open: 'opened',
  read: 'read',
  readlink: 'read',
  realpath: 'read',
  rename: 'renamed',
  rm: 'removed',
  rmdir: 'removed',
  scandir: 'read',
  stat: 'read',
  symlink: 'created',
  unlink: 'removed',
  write: 'written',
};

/** Returns why a system call on a file failed, such as `permission denied`, and the message of any other error. */
export function fileErrorReason(error: unknown): string {
  const { code = '', path } = (error ?? {}) as NodeJS.ErrnoException;
  return (path === undefined ? undefined : reasons[code]) ?? errorText(error);
}

/** Returns a sentence for a failed system call on a file, such as `a.yaml cannot be opened: permission denied`, and the message of any other error. */
export function fileErrorText(error: unknown): string {
  const { code = '', path, syscall = '' } = (error ?? {}) as NodeJS.ErrnoException;
  const reason = reasons[code];
  return path === undefined || reason === undefined ? errorText(error) : `${path} cannot be ${participles[syscall] ?? 'used'}: ${reason}`;
}

/**
 * Returns true if a JSON file does not exist or is not complete, as after a power failure. After any other error its content is unknown: the disk may
 * have failed, or the process may have too many open files.
 */
export const isAbsentOrTruncated = (error: unknown): boolean =>
  error instanceof SyntaxError || ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');

/** Returns true if a file below /proc/PID cannot be read because the process does not exist. Any other error does not mean that it has ended. */
export const isProcessGone = (error: unknown): boolean => ['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '');
