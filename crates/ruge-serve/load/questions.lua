-- Requests for wrk, from a file of facts (head, relation, tail, separated by tabs).
--   wrk -t2 -c32 -d10s -s questions.lua http://127.0.0.1:7997 -- KIND facts.tsv [DIFFERENT]
-- KIND is predict, explain, search, entity or healthz; DIFFERENT bounds how many different requests there are.

local function encoded(text)
  return (text:gsub("[^%w%-_%.~]", function(c) return string.format("%%%02X", string.byte(c)) end))
end

local paths, at, pass, differs = {}, 0, 0, false

function init(args)
  local kind, file, most = args[1], args[2], tonumber(args[3] or "1000000000")
  -- Without a bound no answer is remembered: every pass asks for another number of answers.
  differs = kind == "predict" and not args[3]
  if kind == "healthz" then
    paths[1] = "/healthz"
  else
    local seen = {}
    for line in io.lines(file) do
      local head, relation, tail = line:match("([^\t]*)\t([^\t]*)\t([^\t\r]*)")
      local path
      if kind == "predict" then
        path = "/api/v1/predict?head=" .. encoded(head) .. "&relation=" .. encoded(relation)
      elseif kind == "explain" then
        path = "/api/v1/explain?head=" .. encoded(head) .. "&relation=" .. encoded(relation) .. "&tail=" .. encoded(tail)
      elseif kind == "search" then
        path = "/api/v1/search?q=" .. encoded(head:sub(1, 1 + (#paths % 7)))
      else
        path = "/entity?name=" .. encoded(head)
      end
      if not seen[path] then
        seen[path] = true
        paths[#paths + 1] = path
      end
      if #paths >= most then break end
    end
  end
  -- Threads begin at different places.
  at = math.random(#paths)
end

function request()
  at = at % #paths + 1
  if at == 1 then pass = pass + 1 end
  return wrk.format("GET", differs and paths[at] .. "&top=" .. (10 + pass) or paths[at])
end
