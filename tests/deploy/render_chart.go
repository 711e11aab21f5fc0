// Renders a Helm chart's templates as `helm template` does, without Helm: Go's text/template, sprig's
// functions and the few that Helm adds. Debian has no Helm, but it has these.
//
//	render_chart CHART_FOLDER < {"Values": {..}, "Release": {..}, "Chart": {..}}
//
// Writes the objects of all templates, with `---` between files. NOTES.txt is parsed, but not written.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
)

// The chart's folder, as Helm's .Files.
type chartFiles string

func (folder chartFiles) Get(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(folder), name))
	return string(text), err
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: render_chart CHART_FOLDER < CONTEXT.json")
	}
	var context map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&context); err != nil {
		log.Fatal("context: ", err)
	}
	context["Files"] = chartFiles(os.Args[1])
	chart := template.New("chart").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	chart.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var text bytes.Buffer
			err := chart.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		// JSON is YAML.
		"toYaml": func(value interface{}) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"required": func(words string, value interface{}) (interface{}, error) {
			if value == nil || value == "" {
				return nil, fmt.Errorf("%s", words)
			}
			return value, nil
		},
	})
	files, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	if err != nil || len(files) == 0 {
		log.Fatal("no templates in ", os.Args[1])
	}
	if _, err := chart.ParseFiles(files...); err != nil {
		log.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") || name == "NOTES.txt" {
			continue
		}
		fmt.Println("---")
		if err := chart.ExecuteTemplate(os.Stdout, name, context); err != nil {
			log.Fatal(err)
		}
		fmt.Println()
	}
}
