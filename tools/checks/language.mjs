// Finds banned words in comments, test titles, declared names and Markdown prose.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { allowedPhrases, bannedInComments, bannedNameParts, bannedNames, bannedPhrases } from './words.mjs';

/** @typedef {{ file: string, line: number, found: string, instead: string }} Finding */

const testFunctions = new Set(['describe', 'it', 'test']);

/** Text without what is quoted or code: `x`, "x", 'x', URLs. */
const proseOf = (text) =>
  text
    .replace(/`[^`]*`/g, ' ')
    .replace(/"[^"\n]*"/g, ' ')
    .replace(/(?<![A-Za-z])'[^'\n]*'/g, ' ')
    .replace(/https?:\S+/g, ' ');

/** @returns {{ found: string, instead: string, index: number }[]} */
export function bannedIn(text, { comment = false } = {}) {
  const prose = proseOf(text);
  const findings = [];
  for (const [pattern, instead] of comment ? [...bannedPhrases, ...bannedInComments] : bannedPhrases)
    for (const match of prose.matchAll(new RegExp(pattern, `g${pattern.flags.replace('g', '')}`))) {
      const around = prose.slice(Math.max(0, match.index - 20), match.index + match[0].length + 20);
      if (!allowedPhrases.some((allowed) => allowed.test(around))) findings.push({ found: match[0], instead, index: match.index });
    }
  return findings;
}

/** The parts of a camelCase, snake_case or kebab-case name, in lower case. */
export const partsOf = (name) =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z]+)([A-Z][a-z])/g, '$1 $2')
    .split(/[^A-Za-z0-9]+/)
    .filter((part) => part !== '')
    .map((part) => part.toLowerCase());

/** Why a name is banned, or undefined. */
export function bannedName(name) {
  const plain = name.replace(/^#/, '');
  if (bannedNames.has(plain)) return 'a noun or verb that names what it holds';
  for (const part of partsOf(plain)) if (bannedNameParts.has(part)) return bannedNameParts.get(part);
  return undefined;
}

function commentsOf(text) {
  const comments = [];
  const source = ts.createSourceFile('x.ts', text, ts.ScriptTarget.Latest, true);
  const seen = new Set();
  const collect = (ranges) => {
    for (const { pos, end } of ranges ?? [])
      if (!seen.has(pos)) {
        seen.add(pos);
        comments.push({ pos, text: text.slice(pos, end) });
      }
  };
  const visit = (node) => {
    collect(ts.getLeadingCommentRanges(text, node.pos));
    collect(ts.getTrailingCommentRanges(text, node.end));
    for (const child of node.getChildren(source)) visit(child);
  };
  visit(source);
  return { comments, source };
}

const declares = (node) =>
  (ts.isVariableDeclaration(node) ||
    ts.isParameter(node) ||
    ts.isFunctionDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isPropertySignature(node) ||
    ts.isPropertyDeclaration(node) ||
    ts.isMethodSignature(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isGetAccessor(node) ||
    ts.isEnumMember(node) ||
    ts.isBindingElement(node)) &&
  node.name !== undefined &&
  (ts.isIdentifier(node.name) || ts.isPrivateIdentifier(node.name));

/** Findings of one TypeScript file. @returns {{ text: Finding[], names: Finding[] }} */
export function checkSource(file, text) {
  const { comments, source } = commentsOf(text);
  const lineOf = (position) => source.getLineAndCharacterOfPosition(position).line + 1;
  const found = { text: [], names: [] };
  for (const comment of comments)
    for (const { found: word, instead, index } of bannedIn(comment.text, { comment: true }))
      found.text.push({ file, line: lineOf(comment.pos) + comment.text.slice(0, index).split('\n').length - 1, found: word, instead });
  const visit = (node) => {
    if (declares(node)) {
      const instead = bannedName(node.name.text);
      if (instead !== undefined) found.names.push({ file, line: lineOf(node.name.getStart(source)), found: node.name.text, instead });
    }
    if (ts.isCallExpression(node)) {
      let callee = node.expression;
      while (ts.isPropertyAccessExpression(callee) || ts.isCallExpression(callee)) callee = callee.expression;
      const [title] = node.arguments;
      if (
        ts.isIdentifier(callee) &&
        testFunctions.has(callee.text) &&
        title &&
        (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title))
      )
        for (const { found: word, instead } of bannedIn(title.getText(source).slice(1, -1)))
          found.text.push({ file, line: lineOf(title.getStart(source)), found: word, instead });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

/** Findings of one Markdown file, code blocks and tables of terms left out. @returns {Finding[]} */
export function checkMarkdown(file, text) {
  const findings = [];
  let fenced = false;
  for (const [index, line] of text.split('\n').entries()) {
    if (/^\s*(```|~~~)/.test(line)) fenced = !fenced;
    else if (!fenced) for (const { found, instead } of bannedIn(line)) findings.push({ file, line: index + 1, found, instead });
  }
  return findings;
}

/** All findings of the given tracked files. */
export function checkLanguage(root, files) {
  const result = { text: [], names: [], fileNames: [] };
  for (const file of files) {
    if (/(^|\/)generated\//.test(file) || file === 'docs/glossary.md' || file.startsWith('tools/checks/')) continue;
    const name = file
      .split('/')
      .at(-1)
      .replace(/(\.test)?\.(ts|mjs|md)$/, '');
    const instead = /\.(ts|mjs|md)$/.test(file) ? bannedName(name.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase())) : undefined;
    if (instead !== undefined) result.fileNames.push({ file, line: 1, found: name, instead });
    if (/\.(ts|mts|mjs)$/.test(file)) {
      const found = checkSource(file, readFileSync(join(root, file), 'utf8'));
      result.text.push(...found.text);
      result.names.push(...found.names);
    } else if (file.endsWith('.md')) result.text.push(...checkMarkdown(file, readFileSync(join(root, file), 'utf8')));
  }
  return result;
}
