// The main program of the single file: unpacks the command and Node into a cache folder at the first start, then runs the command in this process.
// Other programs of the command (supervisors, threads, drivers) are started with the unpacked Node: this file runs only its own program.
'use strict';
const { randomBytes } = require('node:crypto');
const { constants, chmodSync, copyFileSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } = require('node:fs');
const { dirname, join, resolve } = require('node:path');
const { pathToFileURL } = require('node:url');
const { getAsset, getRawAsset } = require('node:sea');

/** The mark in each Node: `:1` runs the program in the file, `:0` is an ordinary Node. In parts, because this text is in the file too. */
const fuse = ['NODE_SEA', 'FUSE', 'fce680ab2cc467b6e072b8b5df1996b2'].join('_');

class UnpackError extends Error {}

/** Returns the folder of all unpacked versions. A folder that other users can write to, such as /tmp, is not a default. */
function cacheFolder({ OARLOCK_UNPACK_DIR, XDG_CACHE_HOME, HOME }) {
  if (OARLOCK_UNPACK_DIR) return resolve(OARLOCK_UNPACK_DIR);
  if (XDG_CACHE_HOME) return join(resolve(XDG_CACHE_HOME), 'oarlock');
  if (HOME) return join(resolve(HOME), '.cache', 'oarlock');
  throw new UnpackError('HOME is not set, so there is no folder for the unpacked command');
}

/** Returns whether a folder is complete. @throws UnpackError if another user could have written it */
function isUnpacked(folder) {
  const found = lstatSync(folder, { throwIfNoEntry: false });
  if (found === undefined) return false;
  if (!found.isDirectory() || ![0, process.getuid()].includes(found.uid) || (found.mode & 0o022) !== 0)
    throw new UnpackError(`${folder} can be written by other users; remove it`);
  return true;
}

/** Writes this file as an ordinary Node. */
function unpackNode(file) {
  copyFileSync(process.execPath, file, constants.COPYFILE_FICLONE);
  const bytes = readFileSync(file);
  const at = bytes.indexOf(`${fuse}:1`);
  if (at < 0) throw new UnpackError(`${process.execPath} has no mark of a single executable application`);
  bytes[at + fuse.length + 1] = '0'.charCodeAt(0);
  writeFileSync(file, bytes);
  chmodSync(file, 0o755);
}

/** Unpacks beside the folder, then renames: a start at the same time, or one that was killed, leaves no half folder. */
function unpack(folder, paths) {
  const draft = `${folder}.${process.pid}-${randomBytes(4).toString('hex')}`;
  try {
    for (const path of paths) {
      const file = join(draft, path);
      mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
      writeFileSync(file, Buffer.from(getRawAsset(path)));
    }
    unpackNode(join(draft, 'node'));
    chmodSync(draft, 0o755);
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    if (!isUnpacked(folder)) throw error;
  }
}

function prepare() {
  const { name, paths } = JSON.parse(getAsset('contents.json', 'utf8'));
  const cache = cacheFolder(process.env);
  const folder = join(cache, name);
  try {
    mkdirSync(cache, { recursive: true, mode: 0o700 });
    if (!isUnpacked(folder)) unpack(folder, paths);
  } catch (error) {
    if (error instanceof UnpackError) throw error;
    throw new UnpackError(`cannot unpack into ${cache}: ${error.message}`);
  }
  return folder;
}

try {
  const folder = prepare();
  const program = join(folder, 'oarlock', 'bin', 'oarlock.js');
  process.execPath = join(folder, 'node');
  process.argv[1] = program;
  import(pathToFileURL(program).href);
} catch (error) {
  if (!(error instanceof UnpackError)) throw error;
  console.error(`oarlock: ${error.message}.\nSet OARLOCK_UNPACK_DIR to a folder that only this user can write to.`);
  process.exitCode = 1;
}
