import { access, mkdir, readFile } from 'node:fs/promises';
import { constants } from 'node:fs';
import { join } from 'node:path';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { pluginType } from './cni-handler.ts';

const versions = '"supportedVersions":["0.3.1","0.4.0","1.0.0","1.1.0"]';
const variables = ['CNI_COMMAND', 'CNI_CONTAINERID', 'CNI_IFNAME', 'CNI_NETNS', 'CNI_ARGS'];
const perl = '/usr/bin/perl';

/**
 * The executable that runtimes run as the CNI plugin. It forwards the call to the node's process and prints the response. The Perl version
 * starts in a tenth of the time that Node.js needs, and Perl is part of every Debian; without Perl, the Node.js version is installed. While
 * the node's process is not running, STATUS fails with code 50 (not available), and other commands fail with code 11 (try again later; CNI
 * specification 1.1, section 5, "Error").
 */
const perlClient = `#!${perl}
# Hands a CNI call to the node's network plugin. Written by network-calico.
use strict;
use Socket qw(PF_UNIX SOCK_STREAM pack_sockaddr_un);
sub refuse { my ($code, $text) = @_; $text =~ s/["\\\\\\x00-\\x1f]/ /g; print qq({"cniVersion":"1.0.0","code":$code,"msg":"$text"}\\n); exit 1 }
local $/;
my $config = <STDIN>;
my $command = $ENV{CNI_COMMAND} // '';
if ($command eq 'VERSION') {
  my ($version) = $config =~ /"cniVersion"\\s*:\\s*"([0-9.]+)"/;
  print '{"cniVersion":"' . ($version // '1.1.0') . '",${versions}}' . "\\n";
  exit 0;
}
my $away = $command eq 'STATUS' ? 50 : 11;
my ($path) = $config =~ /"socket"\\s*:\\s*"([^"\\\\]+)"/ or refuse(7, 'the network configuration names no socket');
socket(my $node, PF_UNIX, SOCK_STREAM, 0) or refuse(5, "socket: $!");
connect($node, pack_sockaddr_un($path)) or refuse($away, "the node does not answer at $path: $!");
my $request = join("\\0", map { $ENV{$_} // '' } qw(${variables.join(' ')})) . "\\0" . $config;
for (my $sent = 0; $sent < length $request;) { $sent += syswrite($node, $request, length($request) - $sent, $sent) // refuse(5, "write: $!") }
shutdown($node, 1);
my $answer = <$node> // '';
$answer =~ s/^([01])\\n// or refuse($away, 'the node went away before it answered');
my $code = $1;
print $answer;
exit $code;
`;

const nodeClient = (node: string) => `#!${node}
// Hands a CNI call to the node's network plugin. Written by network-calico.
const { readFileSync, writeSync } = require('node:fs');
const end = (code, text) => { writeSync(1, text); process.exit(code); };
const refuse = (code, msg) => end(1, JSON.stringify({ cniVersion: '1.0.0', code, msg }) + '\\n');
const config = readFileSync(0, 'utf8');
const field = (name) => new RegExp('"' + name + '"\\\\s*:\\\\s*"([^"\\\\\\\\]+)"').exec(config)?.[1];
if (process.env.CNI_COMMAND === 'VERSION') end(0, '{"cniVersion":"' + (field('cniVersion') ?? '1.1.0') + '",${versions}}\\n');
const away = process.env.CNI_COMMAND === 'STATUS' ? 50 : 11;
const path = field('socket') ?? refuse(7, 'the network configuration names no socket');
const node = require('node:net').connect({ path, allowHalfOpen: true });
const parts = [];
node.on('error', (error) => refuse(away, 'the node does not answer at ' + path + ': ' + error.code));
node.on('data', (part) => parts.push(part));
node.on('end', () => {
  const answer = Buffer.concat(parts).toString();
  if (!/^[01]\\n/.test(answer)) refuse(away, 'the node went away before it answered');
  end(Number(answer[0]), answer.slice(2));
});
node.end(${JSON.stringify(variables)}.map((name) => process.env[name] ?? '').join('\\0') + '\\0' + config);
`;

export async function clientText(language?: 'perl' | 'node'): Promise<string> {
  const hasPerl = await access(perl, constants.X_OK).then(
    () => true,
    () => false,
  );
  return (language ?? (hasPerl ? 'perl' : 'node')) === 'perl' ? perlClient : nodeClient(process.execPath);
}

/** Installs the executable in a directory in which runtimes look for CNI plugins: atomically, and only if the content differs. */
export async function installClient(directory: string, text: string): Promise<void> {
  const file = join(directory, pluginType);
  await mkdir(directory, { recursive: true, mode: 0o755 });
  if ((await readFile(file, 'utf8').catch(() => undefined)) === text) return;
  await writeAtomic(file, text, { mode: 0o755 });
}
