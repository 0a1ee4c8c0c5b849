// Lengths of files and functions, and positional parameters, compared with the list of exceptions in accepted-sizes.json.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

export const limits = { fileLines: 300, functionLines: 60, parameters: 3, folderEntries: 20 };

const nameOf = (node, source) => {
  if (ts.isConstructorDeclaration(node)) return `${node.parent.name?.text ?? ''}.constructor`;
  const own = node.name?.getText(source);
  if (ts.isVariableDeclaration(node)) return node.name.getText(source);
  if (own !== undefined) return ts.isClassLike(node.parent) && node.parent.name ? `${node.parent.name.text}.${own}` : own;
  const { parent } = node;
  if (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) || ts.isPropertyDeclaration(parent))
    return parent.name.getText(source);
  for (let outer = parent; outer !== undefined; outer = outer.parent)
    if (ts.isFunctionLike(outer) || ts.isVariableDeclaration(outer)) return `callback in ${nameOf(outer, source)}`;
  return 'callback';
};

/** Suites of tests are lists of cases: `describe` bodies and functions named `...Contract` or `...Cases` count by case, not as a whole. */
const isSuite = (node, source, file) =>
  /\/contract\/|\.test\.ts$/.test(file) ||
  (ts.isCallExpression(node.parent) && ['describe', 'it', 'test'].includes(node.parent.expression.getText(source).split('.')[0]));

/** @returns {{ longFile: number | undefined, longFunctions: { name: string, lines: number, line: number }[], wideFunctions: { name: string, parameters: number, line: number }[] }} */
export function sizesOf(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const lineOf = (position) => source.getLineAndCharacterOfPosition(position).line + 1;
  const lines = text.split('\n').length - 1;
  const result = { longFile: lines > limits.fileLines ? lines : undefined, longFunctions: [], wideFunctions: [] };
  const visit = (node) => {
    if (ts.isFunctionLike(node) && node.body && !isSuite(node, source, file)) {
      const [first, last] = [lineOf(node.getStart(source)), lineOf(node.end)];
      const name = nameOf(node, source);
      if (last - first + 1 > limits.functionLines) result.longFunctions.push({ name, lines: last - first + 1, line: first });
      const parameters = node.parameters.filter(({ name: own }) => own.getText(source) !== 'this').length;
      if (parameters > limits.parameters) result.wideFunctions.push({ name, parameters, line: first });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return result;
}

/** @returns {{ longFiles: [string, number][], longFunctions: [string, number][], wideFunctions: [string, number][] }} keys are `file` or `file#function` */
export function checkSizes(root, files) {
  const result = { longFiles: [], longFunctions: [], wideFunctions: [] };
  for (const file of files) {
    if (!/^(packages|plugins)\/[^/]+\/src\/.*\.ts$/.test(file) || /\/generated\//.test(file)) continue;
    const { longFile, longFunctions, wideFunctions } = sizesOf(file, readFileSync(join(root, file), 'utf8'));
    if (longFile !== undefined) result.longFiles.push([file, longFile]);
    result.longFunctions.push(...longFunctions.map(({ name, lines }) => [`${file}#${name}`, lines]));
    result.wideFunctions.push(...wideFunctions.map(({ name, parameters }) => [`${file}#${name}`, parameters]));
  }
  return result;
}

/**
 * Compares findings of one kind with the exceptions to it. An exception has a reason and the entries that the reason covers: files, or functions as
 * `file#function`. @returns {string[]} one error for each finding that is not listed, and for each entry that is not found or lacks a reason
 */
export function sizeErrors(findings, exceptions) {
  const found = new Map(findings);
  const listed = new Set();
  const errors = [];
  for (const { reason, entries } of exceptions) {
    if (typeof reason !== 'string' || !/^[A-Z].{20,}\.$/.test(reason))
      errors.push(`an exception needs a reason, in one sentence: ${JSON.stringify(reason)}`);
    for (const entry of entries) {
      if (listed.has(entry)) errors.push(`${entry} is listed twice`);
      else if (!found.has(entry)) errors.push(`${entry} is listed, but within the limit or absent: remove it`);
      listed.add(entry);
    }
  }
  for (const [entry, size] of found)
    if (!listed.has(entry)) errors.push(`${entry}: ${size} is over the limit, and not listed with a reason`);
  return errors;
}
